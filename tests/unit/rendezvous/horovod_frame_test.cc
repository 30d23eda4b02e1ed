#include "rendezvous/horovod_frame.h"

#include <gtest/gtest.h>

namespace muster::rendezvous::horovod_frame_test {
namespace {

constexpr StoreLimits kLimits{.max_key_bytes = 8, .max_value_bytes = 16};

TEST(HorovodFrame, HasItsBytes) {
  const std::string head =
      horovod_frame_head({.kind = HorovodFrameKind::kPut, .id = 0x0102, .scope = "global", .key = "7", .value = "abc"});
  const std::string expected("\x03\0\0\0\x02\x01\0\0\0\0\0\0\x06\0\x01\0\x01\0\0\0global7", 27);
  EXPECT_EQ(head, expected);
}

TEST(HorovodFrame, EveryKindComesBackAsItWas) {
  for (const auto kind :
       {HorovodFrameKind::kPut, HorovodFrameKind::kFinish, HorovodFrameKind::kFollow, HorovodFrameKind::kDone,
        HorovodFrameKind::kBegin, HorovodFrameKind::kSet, HorovodFrameKind::kErased, HorovodFrameKind::kCleared,
        HorovodFrameKind::kSynced, HorovodFrameKind::kSetPacked}) {
    const HorovodFrame frame{.kind = kind,
                             .id = ~std::uint64_t{0},
                             .code = base::Code::kUnavailable,
                             .scope = "scope",
                             .key = "key",
                             .value = std::string_view("v\0x", 3)};
    const std::string bytes = horovod_frame_head(frame) + std::string(frame.value) + "next";
    const auto parse = parse_horovod_frame(bytes, kLimits);
    ASSERT_TRUE(parse.ok() && parse->is_complete);
    EXPECT_EQ(parse->size, bytes.size() - 4);
    EXPECT_EQ(parse->frame.kind, kind);
    EXPECT_EQ(parse->frame.id, frame.id);
    EXPECT_EQ(parse->frame.code, frame.code);
    EXPECT_EQ(parse->frame.scope, frame.scope);
    EXPECT_EQ(parse->frame.key, frame.key);
    EXPECT_EQ(parse->frame.value, frame.value);
  }
}

TEST(HorovodFrame, AsksForWhatIsMissing) {
  const std::string bytes = horovod_frame_head({.kind = HorovodFrameKind::kSet, .scope = "s", .value = "abc"}) + "abc";
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const auto parse = parse_horovod_frame(std::string_view(bytes).substr(0, size), kLimits);
    ASSERT_TRUE(parse.ok());
    EXPECT_FALSE(parse->is_complete);
    EXPECT_EQ(parse->size, size < kHorovodFrameHeader ? kHorovodFrameHeader : bytes.size());
  }
}

TEST(HorovodFrame, RefusesByItsHeaderAlone) {
  const auto refused = [](HorovodFrame frame, std::size_t at = 0, char byte = 0) {
    std::string head = horovod_frame_head(frame).substr(0, kHorovodFrameHeader);
    if (at != 0) head[at] = byte;
    return parse_horovod_frame(head, kLimits).status().code() == base::Code::kInvalidArgument;
  };
  const std::string long_value(17, 'v');
  EXPECT_FALSE(refused({.scope = "12345678"}));
  EXPECT_TRUE(refused({.scope = "12345", .key = "6789"}));
  EXPECT_TRUE(refused({.value = long_value}));
  EXPECT_TRUE(refused({}, 3, '\xff')) << "a length of 4 GB";
  EXPECT_TRUE(refused({}, 16, 0));
  EXPECT_TRUE(refused({}, 16, 11));
  EXPECT_TRUE(refused({}, 17, 17));
  EXPECT_TRUE(refused({}, 18, 1));
}

}  // namespace
}  // namespace muster::rendezvous::horovod_frame_test
