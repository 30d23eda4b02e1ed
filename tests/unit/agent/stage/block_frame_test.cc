#include "agent/stage/block_frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::agent::block_frame_test {
namespace {

using ::testing::HasSubstr;

TEST(BlockFrame, ARequestComesBack) {
  std::string bytes;
  append_block_request({.entry = 0x01020304, .block = 7}, bytes);
  ASSERT_EQ(bytes.size(), kBlockRequestSize);
  EXPECT_EQ(bytes[0], 4);  // little-endian
  EXPECT_EQ(parse_block_request(bytes), (BlockId{0x01020304, 7}));
}

TEST(BlockFrame, AReplyComesBack) {
  std::string bytes;
  append_block_reply({.kind = BlockReplyKind::kBlock, .id = {3, 4}, .size = 99}, bytes);
  ASSERT_EQ(bytes.size(), kBlockReplySize);
  const auto reply = parse_block_reply(bytes);
  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(reply->kind, BlockReplyKind::kBlock);
  EXPECT_EQ(reply->id, (BlockId{3, 4}));
  EXPECT_EQ(reply->size, 99U);
}

TEST(BlockFrame, SizesMustFitTheKind) {
  const auto parse = [](BlockReplyKind kind, std::uint32_t size) {
    std::string bytes;
    append_block_reply({.kind = kind, .size = size}, bytes);
    return parse_block_reply(bytes).status();
  };
  EXPECT_TRUE(parse(BlockReplyKind::kBlock, kMostBlockBytes).ok());
  EXPECT_FALSE(parse(BlockReplyKind::kBlock, kMostBlockBytes + 1).ok());
  EXPECT_FALSE(parse(BlockReplyKind::kBlock, 0).ok());
  EXPECT_TRUE(parse(BlockReplyKind::kAlive, 0).ok());
  EXPECT_FALSE(parse(BlockReplyKind::kRefused, 1).ok());
  EXPECT_THAT(parse(static_cast<BlockReplyKind>(9), 0).message(), HasSubstr("kind 9"));
}

}  // namespace
}  // namespace muster::agent::block_frame_test
