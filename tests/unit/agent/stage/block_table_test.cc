#include "agent/stage/block_table.h"

#include <sys/eventfd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/agent/stage/block_fixture.h"

namespace muster::agent::block_table_test {
namespace {

using namespace block_fixture;
using ::testing::HasSubstr;
using Presence = BlockTable::Presence;

class BlockTableTest : public BlockFolderTest {
 protected:
  static std::vector<BlockId> check_all(BlockTable& table) {
    std::vector<BlockId> missing;
    while (const auto id = table.next_to_check()) {
      const auto is_here = table.check(*id);
      EXPECT_TRUE(is_here.ok()) << is_here.status();
      if (is_here.ok() && !*is_here) missing.push_back(*id);
    }
    return missing;
  }
  const std::string text_ = "0123456789abcdefghijxyz";
};

TEST_F(BlockTableTest, AFileIsCompleteWithItsLastBlock) {
  const auto blocks = table("in", {text_});
  list(*blocks, {text_});
  EXPECT_THAT(check_all(*blocks), ::testing::ElementsAre(BlockId{0, 0}, BlockId{0, 1}, BlockId{0, 2}));
  EXPECT_EQ(blocks->presence({0, 1}), Presence::kLater);
  for (const std::uint32_t block : {2U, 0U}) ASSERT_TRUE(blocks->put({0, block}, block_of(text_, block)).ok());
  EXPECT_EQ(blocks->presence({0, 2}), Presence::kHere);
  EXPECT_EQ(*blocks->read({0, 2}), "xyz");
  EXPECT_FALSE(blocks->is_complete());
  EXPECT_FALSE(fs::exists(root_ / "in/f0"));
  ASSERT_TRUE(blocks->put({0, 1}, block_of(text_, 1)).ok());
  EXPECT_TRUE(blocks->is_complete());
  EXPECT_EQ(content("in/f0"), text_);
  EXPECT_EQ(*blocks->read({0, 1}), "abcdefghij");  // now from the file itself
  EXPECT_EQ(blocks->done_blocks(), 3U);
  EXPECT_EQ(blocks->changed_files(), 1U);
}

TEST_F(BlockTableTest, AWrongBlockIsRefused) {
  const auto blocks = table("in", {text_});
  list(*blocks, {text_});
  (void)check_all(*blocks);
  const base::Status status = blocks->put({0, 0}, "0123456780");
  EXPECT_EQ(status.code(), base::Code::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("block 0 of f0 arrived with other content"));
  EXPECT_TRUE(blocks->is_missing({0, 0}));
  EXPECT_EQ(blocks->put({0, 0}, "012345678").code(), base::Code::kDataLoss);
  ASSERT_TRUE(blocks->put({0, 0}, "0123456789").ok());
  EXPECT_FALSE(blocks->is_missing({0, 0}));
}

TEST_F(BlockTableTest, BlocksThatAreNotMissingAreIgnored) {
  const auto blocks = table("in", {text_});
  EXPECT_TRUE(blocks->put({0, 0}, "before the list").ok());
  list(*blocks, {text_});
  EXPECT_TRUE(blocks->put({0, 0}, "before the check").ok());
  EXPECT_TRUE(blocks->put({7, 7}, "of no file").ok());
  (void)check_all(*blocks);
  ASSERT_TRUE(blocks->put({0, 0}, block_of(text_, 0)).ok());
  EXPECT_TRUE(blocks->put({0, 0}, "a second time").ok());
  EXPECT_EQ(blocks->done_blocks(), 1U);
}

TEST_F(BlockTableTest, ListsMustFitTheFile) {
  const auto blocks = table("in", {text_, ""});
  const std::string hashes = hashes_of(text_);
  EXPECT_FALSE(blocks->add_hashes(0, 1, hashes).ok());
  EXPECT_FALSE(blocks->add_hashes(5, 0, hashes).ok());
  EXPECT_FALSE(blocks->add_hashes(-1, 0, hashes).ok());
  EXPECT_FALSE(blocks->add_hashes(0, 0, hashes + "short").ok());
  EXPECT_THAT(blocks->add_hashes(0, 0, hashes + hash_of("")).message(), HasSubstr("entry 0 has 3 blocks, not more"));
  EXPECT_TRUE(blocks->add_hashes(0, 0, std::string_view(hashes).substr(0, 32)).ok());
  EXPECT_TRUE(blocks->add_hashes(0, 1, std::string_view(hashes).substr(32)).ok());
  EXPECT_TRUE(blocks->add_hashes(1, 0, "").ok());
  EXPECT_TRUE(fs::exists(root_ / "in/f1"));
}

TEST_F(BlockTableTest, FilesThatAreNotWantedAreServed) {
  put("in/f1", text_);
  const auto blocks = table_of(
      "in", std::make_shared<std::vector<StageItem>>(std::vector<StageItem>{file("f0", text_), file("f1", text_)}),
      {0});
  EXPECT_EQ(blocks->presence({1, 2}), Presence::kHere);
  EXPECT_EQ(*blocks->read({1, 2}), "xyz");
  EXPECT_EQ(blocks->presence({1, 3}), Presence::kNever);
  EXPECT_EQ(blocks->presence({2, 0}), Presence::kNever);
}

TEST_F(BlockTableTest, ChangesWakeTheOthers) {
  const auto blocks = table("in", {text_});
  const auto wake = std::make_shared<const base::UniqueFd>(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  blocks->notify({wake});
  const auto is_awake = [&wake] {
    eventfd_t count = 0;
    return ::eventfd_read(wake->get(), &count) == 0;
  };
  EXPECT_FALSE(is_awake());
  list(*blocks, {text_});
  EXPECT_TRUE(is_awake());
  (void)check_all(*blocks);
  ASSERT_TRUE(blocks->put({0, 0}, block_of(text_, 0)).ok());
  EXPECT_TRUE(is_awake());
}

}  // namespace
}  // namespace muster::agent::block_table_test
