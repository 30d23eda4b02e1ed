#include "rendezvous/tcp_store_protocol.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/unit/rendezvous/torch_wire.h"

namespace muster::rendezvous::tcp_store_protocol_test {
namespace {

using namespace testing;

using Codes = std::map<int, TorchOp>;

void expect_codes(TorchGeneration generation, const Codes& expected) {
  for (int code = 0; code < 256; ++code) {
    const auto op = torch_op(generation, static_cast<std::uint8_t>(code));
    const auto known = expected.find(code);
    ASSERT_EQ(op.has_value(), known != expected.end()) << code;
    if (op) {
      EXPECT_EQ(*op, known->second) << code;
    }
  }
}

TEST(TorchOp, CodesOfTorchUpTo20) {
  using enum TorchOp;
  expect_codes(TorchGeneration::kA, {{0, kSet},
                                     {1, kCompareSet},
                                     {2, kGet},
                                     {3, kAdd},
                                     {4, kCheck},
                                     {5, kWait},
                                     {6, kCountKeys},
                                     {7, kWatchKey},
                                     {8, kDeleteKey}});
}

TEST(TorchOp, CodesOfTorch21) {
  using enum TorchOp;
  expect_codes(TorchGeneration::kB, {{0, kSet},
                                     {1, kCompareSet},
                                     {2, kGet},
                                     {3, kAdd},
                                     {4, kCheck},
                                     {5, kWait},
                                     {6, kCountKeys},
                                     {7, kDeleteKey},
                                     {8, kAppend},
                                     {9, kMultiGet},
                                     {10, kMultiSet},
                                     {11, kCancelWait}});
}

TEST(TorchOp, CodesOfTorchFrom22) {
  using enum TorchOp;
  expect_codes(TorchGeneration::kC, {{1, kSet},
                                     {2, kCompareSet},
                                     {3, kGet},
                                     {4, kAdd},
                                     {5, kCheck},
                                     {6, kWait},
                                     {7, kCountKeys},
                                     {8, kDeleteKey},
                                     {9, kAppend},
                                     {10, kMultiGet},
                                     {11, kMultiSet},
                                     {12, kCancelWait},
                                     {13, kPing},
                                     {14, kQueuePush},
                                     {15, kQueuePop},
                                     {16, kQueueLength},
                                     {17, kListKeys},
                                     {18, kBarrier}});
}

TEST(TorchGreeting, IsToldByTheFirstFiveBytes) {
  const std::string greeting = testing::validate();
  for (std::size_t size = 0; size < greeting.size(); ++size) {
    EXPECT_EQ(read_torch_greeting(greeting.substr(0, size)), TorchGreeting::kNeedsMore) << size;
  }
  EXPECT_EQ(read_torch_greeting(greeting), TorchGreeting::kValidated);
  EXPECT_EQ(read_torch_greeting(greeting + "more"), TorchGreeting::kValidated);
  EXPECT_EQ(read_torch_greeting("\x03"), TorchGreeting::kOther);
  EXPECT_EQ(read_torch_greeting(std::string("\x00\xCE\xF7\x85\x3D", 5)), TorchGreeting::kOther);
  EXPECT_EQ(read_torch_greeting(std::string("\x00\x05", 2)), TorchGreeting::kOther);
  EXPECT_EQ(read_torch_greeting("GET / HTTP/1.1\r\n"), TorchGreeting::kOther);
}

struct Shape {
  TorchOp op;
  std::string arguments;
  std::vector<std::string> texts;
  std::int64_t number = 0;
};

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all = {
      {TorchOp::kSet, text("key") + text("value"), {"key", "value"}},
      {TorchOp::kSet, text("") + text(""), {"", ""}},
      {TorchOp::kCompareSet, text("k") + text("old") + text("new"), {"k", "old", "new"}},
      {TorchOp::kGet, text("k"), {"k"}},
      {TorchOp::kAdd, text("init/") + i64(-5), {"init/"}, -5},
      {TorchOp::kCheck, texts({"a", "", "ccc"}), {"a", "", "ccc"}},
      {TorchOp::kCheck, texts({}), {}},
      {TorchOp::kWait, texts({"a"}), {"a"}},
      {TorchOp::kCountKeys, "", {}},
      {TorchOp::kWatchKey, text("k"), {"k"}},
      {TorchOp::kDeleteKey, text("k"), {"k"}},
      {TorchOp::kAppend, text("k") + text("tail"), {"k", "tail"}},
      {TorchOp::kMultiGet, texts({"a", "b"}), {"a", "b"}},
      {TorchOp::kMultiSet, i64(2) + text("a") + text("1") + text("b") + text("2"), {"a", "1", "b", "2"}},
      {TorchOp::kMultiSet, i64(0), {}},
      {TorchOp::kCancelWait, "", {}},
      {TorchOp::kPing, u32(0xFEEDBEEF), {}, 0xFEEDBEEF},
      {TorchOp::kQueuePush, text("q") + text("item"), {"q", "item"}},
      {TorchOp::kQueuePop, text("q"), {"q"}},
      {TorchOp::kQueueLength, text("q"), {"q"}},
      {TorchOp::kListKeys, "", {}},
      {TorchOp::kBarrier, text("b") + i64(4), {"b"}, 4},
  };
  return all;
}

void expect_parsed(const TorchRequestParser& parser, const std::string& bytes, const Shape& shape) {
  EXPECT_EQ(parser.op(), shape.op);
  ASSERT_EQ(parser.text_count(), shape.texts.size());
  for (std::size_t i = 0; i < shape.texts.size(); ++i) EXPECT_EQ(parser.text(bytes, i), shape.texts[i]);
  if (shape.number != 0) {
    EXPECT_EQ(parser.number(), shape.number);
  }
}

TEST(TorchRequestParser, EveryRequestByteByByte) {
  TorchRequestParser parser({});
  for (const Shape& shape : shapes()) {
    const std::string request = u8(0x42) + shape.arguments;
    parser.begin(shape.op);
    for (std::size_t size = 1; size < request.size(); ++size) {
      const auto whole = parser.parse(std::string_view(request).substr(0, size));
      ASSERT_TRUE(whole.ok());
      EXPECT_FALSE(*whole) << static_cast<int>(shape.op) << ", " << size << " bytes";
    }
    const auto whole = parser.parse(request);
    ASSERT_TRUE(whole.ok() && *whole) << static_cast<int>(shape.op);
    EXPECT_EQ(parser.size(), request.size());
    expect_parsed(parser, request, shape);
  }
}

TEST(TorchRequestParser, ARequestEndsWhereTheNextBegins) {
  TorchRequestParser parser({});
  std::string all;
  for (const Shape& shape : shapes()) all += u8(0x42) + shape.arguments;
  std::string_view rest = all;
  for (const Shape& shape : shapes()) {
    parser.begin(shape.op);
    const auto whole = parser.parse(rest);
    ASSERT_TRUE(whole.ok() && *whole);
    expect_parsed(parser, std::string(rest), shape);
    rest.remove_prefix(parser.size());
  }
  EXPECT_TRUE(rest.empty());
}

constexpr TorchRequestLimits kTight = {
    .max_key_bytes = 4, .max_value_bytes = 8, .max_keys = 3, .max_request_bytes = 40};

base::Code parse_tight(TorchOp op, const std::string& arguments) {
  TorchRequestParser parser(kTight);
  parser.begin(op);
  return parser.parse(u8(0) + arguments).status().code();
}

TEST(TorchRequestParser, LengthsAreCheckedBeforeTheirBytesCome) {
  EXPECT_EQ(parse_tight(TorchOp::kGet, u64(4)), base::Code::kOk);
  EXPECT_EQ(parse_tight(TorchOp::kGet, u64(5)), base::Code::kInvalidArgument);
  EXPECT_EQ(parse_tight(TorchOp::kGet, u64(~std::uint64_t{0})), base::Code::kInvalidArgument);
  EXPECT_EQ(parse_tight(TorchOp::kSet, text("k") + u64(8)), base::Code::kOk);
  EXPECT_EQ(parse_tight(TorchOp::kSet, text("k") + u64(9)), base::Code::kInvalidArgument);
  EXPECT_EQ(parse_tight(TorchOp::kWait, u64(3)), base::Code::kOk);
  EXPECT_EQ(parse_tight(TorchOp::kWait, u64(4)), base::Code::kInvalidArgument);
  EXPECT_EQ(parse_tight(TorchOp::kWait, u64(2) + text("a") + u64(5)), base::Code::kInvalidArgument);
  EXPECT_EQ(parse_tight(TorchOp::kMultiSet, i64(3)), base::Code::kOk);
  EXPECT_EQ(parse_tight(TorchOp::kMultiSet, i64(-1)), base::Code::kInvalidArgument);
  // 1 + 8 + 12 + 16 bytes fit into 40, and 8 more do not.
  EXPECT_EQ(parse_tight(TorchOp::kMultiSet, i64(2) + text("abcd") + text("12345678")), base::Code::kOk);
  EXPECT_EQ(parse_tight(TorchOp::kMultiSet, i64(2) + text("abcd") + text("12345678") + text("")),
            base::Code::kInvalidArgument);
}

TEST(TorchRequestParser, TheLimitsOfTorchsServer) {
  const TorchRequestLimits limits;
  EXPECT_EQ(limits.max_key_bytes, 8u << 10);
  EXPECT_EQ(limits.max_value_bytes, 8u << 20);
  EXPECT_EQ(limits.max_keys, 128u << 10);
}

}  // namespace
}  // namespace muster::rendezvous::tcp_store_protocol_test
