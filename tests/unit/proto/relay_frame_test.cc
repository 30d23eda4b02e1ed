#include "proto/relay_frame.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace muster::proto::relay_frame_test {
namespace {

std::string encoded(const RelayFrame& frame) {
  std::string bytes;
  append_relay_frame(frame, bytes);
  return bytes;
}

TEST(RelayFrame, HasItsBytesInTheirPlaces) {
  EXPECT_EQ(encoded({.kind = RelayKind::kData, .stream = 0x0102, .payload = "abc"}),
            std::string("\x03\0\0\0\x02\x01\0\0\x02\0\0\0", 12) + "abc");
  EXPECT_EQ(encoded({.kind = RelayKind::kCredit, .stream = 7, .credit = kRelayWindow}),
            std::string("\0\0\x04\0\x07\0\0\0\x03\0\0\0", 12));
  EXPECT_EQ(encoded({.kind = RelayKind::kOpen, .stream = 1}), std::string("\0\0\0\0\x01\0\0\0\x01\0\0\0", 12));
}

TEST(RelayFrame, ParserCutsAStreamAtAnyByte) {
  const std::vector<RelayFrame> frames = {{.kind = RelayKind::kOpen, .stream = 1},
                                          {.kind = RelayKind::kData, .stream = 1, .payload = "hello"},
                                          {.kind = RelayKind::kCredit, .stream = 1, .credit = 17},
                                          {.kind = RelayKind::kProven, .stream = 4'000'000'000U},
                                          {.kind = RelayKind::kClose, .stream = 1}};
  std::string stream;
  for (const RelayFrame& frame : frames) append_relay_frame(frame, stream);
  std::string_view rest = stream;
  for (const RelayFrame& frame : frames) {
    const std::size_t size = kRelayHeaderSize + frame.payload.size();
    for (std::size_t cut = 0; cut < size; ++cut) {
      const auto parse = parse_relay_frame(rest.substr(0, cut));
      ASSERT_TRUE(parse.ok()) << parse.status();
      EXPECT_FALSE(parse->is_complete);
      EXPECT_EQ(parse->size, cut < kRelayHeaderSize ? kRelayHeaderSize : size);
    }
    const auto parse = parse_relay_frame(rest);
    ASSERT_TRUE(parse.ok()) << parse.status();
    ASSERT_TRUE(parse->is_complete);
    EXPECT_EQ(parse->frame.kind, frame.kind);
    EXPECT_EQ(parse->frame.stream, frame.stream);
    EXPECT_EQ(parse->frame.credit, frame.credit);
    EXPECT_EQ(parse->frame.payload, frame.payload);
    EXPECT_EQ(parse->size, size);
    rest.remove_prefix(parse->size);
  }
  EXPECT_TRUE(rest.empty());
}

TEST(RelayFrame, RefusesLengthsOutsideTheLimitsOfTheirKind) {
  const auto refused = [](RelayKind kind, std::uint32_t length) {
    std::string bytes = encoded({.kind = RelayKind::kCredit, .stream = 3, .credit = length});
    bytes[8] = static_cast<char>(kind);
    return parse_relay_frame(bytes).status().code() == base::Code::kInvalidArgument;
  };
  EXPECT_TRUE(refused(RelayKind::kData, 0));
  EXPECT_FALSE(refused(RelayKind::kData, kMaxRelayPayload));
  EXPECT_TRUE(refused(RelayKind::kData, kMaxRelayPayload + 1));
  EXPECT_TRUE(refused(RelayKind::kCredit, 0));
  EXPECT_FALSE(refused(RelayKind::kCredit, kRelayWindow));
  EXPECT_TRUE(refused(RelayKind::kCredit, kRelayWindow + 1));
  for (const RelayKind kind : {RelayKind::kOpen, RelayKind::kClose, RelayKind::kProven}) {
    EXPECT_FALSE(refused(kind, 0));
    EXPECT_TRUE(refused(kind, 1));
  }
  for (const int kind : {0, 6, 255}) EXPECT_TRUE(refused(static_cast<RelayKind>(kind), 0));
}

TEST(RelayFrame, RefusesPadding) {
  for (const std::size_t at : {9U, 10U, 11U}) {
    std::string bytes = encoded({.kind = RelayKind::kOpen, .stream = 3});
    bytes[at] = 1;
    EXPECT_EQ(parse_relay_frame(bytes).status().message(), "relay: malformed frame (kind 1, stream 3, 0 bytes)");
  }
}

TEST(ViaHello, NamesAService) {
  for (const ViaService service : {ViaService::kControl, ViaService::kOutput, ViaService::kEcho}) {
    const std::string hello = via_hello(service);
    EXPECT_EQ(hello.size(), kViaHelloSize);
    EXPECT_EQ(parse_via_hello(hello), service);
    EXPECT_EQ(parse_via_hello(hello + "x"), std::nullopt);
    EXPECT_EQ(parse_via_hello(hello.substr(1)), std::nullopt);
  }
  EXPECT_EQ(parse_via_hello("MUSTVIAX"), std::nullopt);
  EXPECT_EQ(parse_via_hello("GET / HT"), std::nullopt);
}

// A server tells relays, agents and TLS apart by the first byte.
TEST(RelayHello, BeginsUnlikeTls) {
  EXPECT_NE(kRelayHello.front(), '\x16');
  EXPECT_FALSE(via_hello(ViaService::kControl).starts_with(kRelayHello));
}

}  // namespace
}  // namespace muster::proto::relay_frame_test
