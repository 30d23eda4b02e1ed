#include "proto/output_frame.h"

#include <gtest/gtest.h>

namespace muster::proto::output_frame_test {
namespace {

std::string data_frame(std::string_view payload, std::uint8_t flags = 0) {
  return encode_output_frame({.kind = OutputKind::kData,
                              .flags = flags,
                              .stream = OutputStream::kStderr,
                              .rank = 70'000,
                              .sequence = 1ULL << 40},
                             payload);
}

TEST(OutputFrame, EveryKindComesBackAsItWas) {
  const auto counts = encode_end_counts({.stdout_bytes = 1ULL << 50, .stderr_bytes = 7});
  const auto gap = encode_gap_bytes(1ULL << 51);
  const struct {
    OutputKind kind;
    std::string payload;
  } cases[] = {{OutputKind::kHello, ""},
               {OutputKind::kResume, ""},
               {OutputKind::kData, "a line\n"},
               {OutputKind::kAck, ""},
               {OutputKind::kEnd, std::string(counts.data(), counts.size())},
               {OutputKind::kFinish, ""},
               {OutputKind::kGap, std::string(gap.data(), gap.size())}};
  for (const auto& [kind, payload] : cases) {
    const std::string bytes = encode_output_frame({.kind = kind, .rank = 5, .sequence = 9}, payload) + "tail";
    const auto parse = parse_output_frame(bytes);
    ASSERT_TRUE(parse.ok()) << parse.status();
    ASSERT_EQ(parse->state, OutputParse::State::kFrame);
    EXPECT_EQ(parse->size, kOutputHeaderSize + payload.size());
    EXPECT_EQ(parse->frame.header.kind, kind);
    EXPECT_EQ(parse->frame.header.rank, 5U);
    EXPECT_EQ(parse->frame.header.sequence, 9U);
    EXPECT_EQ(parse->frame.payload, payload);
  }
  EXPECT_EQ(decode_end_counts({counts.data(), counts.size()}).stdout_bytes, 1ULL << 50);
  EXPECT_EQ(decode_end_counts({counts.data(), counts.size()}).stderr_bytes, 7U);
  EXPECT_EQ(decode_gap_bytes({gap.data(), gap.size()}), 1ULL << 51);
}

TEST(OutputFrame, DataKeepsStreamFlagsAndLargeNumbers) {
  const std::string bytes = data_frame("x", kPartial | kContinuation);
  const auto parse = parse_output_frame(bytes);
  ASSERT_TRUE(parse.ok()) << parse.status();
  EXPECT_EQ(parse->frame.header.stream, OutputStream::kStderr);
  EXPECT_EQ(parse->frame.header.flags, kPartial | kContinuation);
  EXPECT_EQ(parse->frame.header.rank, 70'000U);
  EXPECT_EQ(parse->frame.header.sequence, 1ULL << 40);
}

TEST(OutputFrame, EveryPrefixNeedsMore) {
  const std::string bytes = data_frame("a line\n");
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const auto parse = parse_output_frame(std::string_view(bytes).substr(0, size));
    ASSERT_TRUE(parse.ok()) << size;
    EXPECT_EQ(parse->state, OutputParse::State::kNeedMore);
    EXPECT_EQ(parse->size, size < kOutputHeaderSize ? kOutputHeaderSize : bytes.size());
  }
}

// One byte of a valid header changed.
TEST(OutputFrame, MalformedHeadersAreRefused) {
  const struct {
    std::size_t at;
    char value;
    const char* what;
  } cases[] = {{4, 0, "kind 0"},     {4, 8, "unknown kind"},   {5, 4, "unknown flag"},
               {6, 0, "no stream"},  {6, 3, "unknown stream"}, {7, 1, "reserved byte"},
               {11, '\x80', "rank"}, {12, 1, "reserved word"}, {3, 1, "16 MiB of payload"},
               {0, 0, "empty data"}};
  for (const auto& [at, value, what] : cases) {
    std::string bytes = data_frame("x");
    bytes[at] = value;
    EXPECT_EQ(parse_output_frame(bytes).status().code(), base::Code::kInvalidArgument) << what;
  }
}

TEST(OutputFrame, LengthsAreBoundedByKind) {
  const auto header_only = [](OutputKind kind, std::uint32_t length) {
    std::string bytes(kOutputHeaderSize, '\0');
    encode_output_header({.kind = kind, .length = length}, bytes.data());
    return parse_output_frame(bytes).ok();
  };
  EXPECT_TRUE(header_only(OutputKind::kData, kMaxOutputPayload));
  EXPECT_FALSE(header_only(OutputKind::kData, kMaxOutputPayload + 1));
  EXPECT_FALSE(header_only(OutputKind::kHello, 1));
  EXPECT_FALSE(header_only(OutputKind::kEnd, 15));
  EXPECT_FALSE(header_only(OutputKind::kAck, 1));
  EXPECT_FALSE(header_only(OutputKind::kResume, 1));
  EXPECT_FALSE(header_only(OutputKind::kFinish, 1));
  EXPECT_FALSE(header_only(OutputKind::kGap, 7));
  EXPECT_FALSE(header_only(OutputKind::kGap, 9));
}

}  // namespace
}  // namespace muster::proto::output_frame_test
