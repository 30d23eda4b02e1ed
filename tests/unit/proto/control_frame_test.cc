#include "proto/control_frame.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace muster::proto::control_frame_test {
namespace {

std::string frame(ControlKind kind, const std::string& payload) {
  std::string bytes;
  append_control_header(kind, payload.size(), bytes);
  return bytes + payload;
}

TEST(ControlFrame, HasItsBytesInTheirPlaces) {
  EXPECT_EQ(frame(ControlKind::kMessage, "abc"), std::string("\x03\0\0\0\x01\0\0\0", 8) + "abc");
  EXPECT_EQ(frame(ControlKind::kEnd, ""), std::string("\0\0\0\0\x02\0\0\0", 8));
  EXPECT_EQ(frame(ControlKind::kUnreadable, ""), std::string("\0\0\0\0\x03\0\0\0", 8));
  std::string header;
  append_control_header(ControlKind::kMessage, kMaxLauncherMessage, header);
  EXPECT_EQ(header, std::string("\0\0\0\x40\x01\0\0\0", 8));
}

TEST(ControlFrame, ParserCutsAStreamAtAnyByte) {
  const std::vector<std::pair<ControlKind, std::string>> frames = {{ControlKind::kMessage, "hello"},
                                                                   {ControlKind::kMessage, ""},
                                                                   {ControlKind::kUnreadable, ""},
                                                                   {ControlKind::kEnd, "going"}};
  std::string stream;
  for (const auto& [kind, payload] : frames) stream += frame(kind, payload);
  std::string_view rest = stream;
  for (const auto& [kind, payload] : frames) {
    const std::size_t size = kControlHeaderSize + payload.size();
    for (std::size_t cut = 0; cut < size; ++cut) {
      const auto parse = parse_control_frame(rest.substr(0, cut), 100);
      ASSERT_TRUE(parse.ok()) << parse.status();
      EXPECT_FALSE(parse->is_complete);
      EXPECT_EQ(parse->size, cut < kControlHeaderSize ? kControlHeaderSize : size);
    }
    const auto parse = parse_control_frame(rest, 100);
    ASSERT_TRUE(parse.ok()) << parse.status();
    ASSERT_TRUE(parse->is_complete);
    EXPECT_EQ(parse->frame.kind, kind);
    EXPECT_EQ(parse->frame.payload, payload);
    EXPECT_EQ(parse->size, size);
    rest.remove_prefix(parse->size);
  }
  EXPECT_TRUE(rest.empty());
}

TEST(ControlFrame, RefusesWhatIsTooLongByItsHeader) {
  const auto refused = [](ControlKind kind, std::size_t size, std::size_t limit) {
    std::string header;
    append_control_header(kind, size, header);
    return parse_control_frame(header, limit).status().code() == base::Code::kInvalidArgument;
  };
  EXPECT_FALSE(refused(ControlKind::kMessage, 100, 100));
  EXPECT_TRUE(refused(ControlKind::kMessage, 101, 100));
  EXPECT_FALSE(refused(ControlKind::kMessage, kMaxLauncherMessage, kMaxLauncherMessage));
  EXPECT_FALSE(refused(ControlKind::kEnd, kMaxEndReason, 100));
  EXPECT_TRUE(refused(ControlKind::kEnd, kMaxEndReason + 1, kMaxLauncherMessage));
  EXPECT_FALSE(refused(ControlKind::kUnreadable, 0, 0));
  EXPECT_TRUE(refused(ControlKind::kUnreadable, 1, 100));
}

TEST(ControlFrame, RefusesUnknownKindsAndPadding) {
  for (const int kind : {0, 4, 255}) {
    const auto parse = parse_control_frame(frame(static_cast<ControlKind>(kind), "x"), 100);
    EXPECT_EQ(parse.status().code(), base::Code::kInvalidArgument);
    EXPECT_EQ(parse.status().message(), fmt::format("control channel: malformed frame (kind {}, 1 bytes)", kind));
  }
  for (const std::size_t at : {5U, 6U, 7U}) {
    std::string bytes = frame(ControlKind::kMessage, "x");
    bytes[at] = 1;
    EXPECT_EQ(parse_control_frame(bytes, 100).status().code(), base::Code::kInvalidArgument);
  }
}

}  // namespace
}  // namespace muster::proto::control_frame_test
