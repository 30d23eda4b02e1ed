#include "agent/stage/block_file.h"

#include <sys/file.h>
#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/agent/stage/block_fixture.h"

namespace muster::agent::block_file_test {
namespace {

using namespace block_fixture;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class BlockFileTest : public BlockFolderTest {
 protected:
  // Checks all blocks of `content`, and puts those that are missing. Returns their numbers.
  std::vector<std::uint32_t> fill(BlockFile& file, const std::string& content) {
    std::vector<std::uint32_t> missing;
    for (std::uint32_t block = 0; block * kBlock < content.size(); ++block) {
      const auto is_here = file.check(hash_of(block_of(content, block)));
      EXPECT_TRUE(is_here.ok()) << is_here.status();
      if (is_here.ok() && *is_here) continue;
      missing.push_back(block);
      EXPECT_TRUE(file.put(block, block_of(content, block)).ok());
    }
    return missing;
  }

  const std::string text_ = "0123456789abcdefghijABCDEFGHIJxyz";
  StageFolder folder_ = *StageFolder::open((root_ / "in").string());
};

TEST_F(BlockFileTest, ANewFileComesWholeWithTimeAndMode) {
  BlockFile made(folder_, file("sub/f", text_), kBlock);
  EXPECT_THAT(fill(made, text_), SizeIs(4));
  EXPECT_FALSE(fs::exists(root_ / "in/sub/f"));
  EXPECT_EQ(*made.read(1), "abcdefghij");
  ASSERT_TRUE(made.finish().ok());
  EXPECT_EQ(content("in/sub/f"), text_);
  struct stat info {};
  ASSERT_EQ(::stat((root_ / "in/sub/f").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0640U);
  EXPECT_EQ(info.st_mtim.tv_nsec, 1);
  EXPECT_THAT(parts(), IsEmpty());
}

TEST_F(BlockFileTest, EqualBlocksOfTheOldFileAreKept) {
  std::string old = text_;
  old[12] = '!';
  put("in/f", old + "and more");
  BlockFile made(folder_, file("f", text_), kBlock);
  EXPECT_THAT(fill(made, text_), ::testing::ElementsAre(1));
  EXPECT_EQ(content("in/f"), old + "and more");  // until the new file is whole
  ASSERT_TRUE(made.finish().ok());
  EXPECT_EQ(content("in/f"), text_);
}

TEST_F(BlockFileTest, AnEqualFileStaysUntouched) {
  put("in/f", text_);
  struct stat before {};
  ASSERT_EQ(::stat((root_ / "in/f").c_str(), &before), 0);
  BlockFile kept(folder_, file("f", text_), kBlock);
  EXPECT_THAT(fill(kept, text_), IsEmpty());
  EXPECT_EQ(*kept.read(3), "xyz");
  ASSERT_TRUE(kept.finish().ok());
  struct stat after {};
  ASSERT_EQ(::stat((root_ / "in/f").c_str(), &after), 0);
  EXPECT_EQ(after.st_ino, before.st_ino);
  EXPECT_EQ(after.st_mtim.tv_nsec, 1);
}

TEST_F(BlockFileTest, AFileThatOnlyBecameShorterIsWrittenAnew) {
  put("in/f", text_ + text_);
  const std::string shorter = text_.substr(0, 20);
  BlockFile made(folder_, file("f", shorter), kBlock);
  EXPECT_THAT(fill(made, shorter), IsEmpty());
  ASSERT_TRUE(made.finish().ok());
  EXPECT_EQ(content("in/f"), shorter);
}

TEST_F(BlockFileTest, AnEmptyFileIsMade) {
  BlockFile made(folder_, file("f", ""), kBlock);
  ASSERT_TRUE(made.finish().ok());
  EXPECT_TRUE(fs::exists(root_ / "in/f"));
}

TEST_F(BlockFileTest, ABrokenStagingIsResumed) {
  {
    BlockFile broken(folder_, file("f", text_), kBlock);
    for (const std::uint32_t block : {0U, 1U, 2U}) {
      EXPECT_FALSE(*broken.check(hash_of(block_of(text_, block))));
      if (block != 1) {
        EXPECT_TRUE(broken.put(block, block_of(text_, block)).ok());
      }
    }
  }
  EXPECT_THAT(parts(), SizeIs(1));
  BlockFile resumed(folder_, file("f", text_), kBlock);
  EXPECT_THAT(fill(resumed, text_), ::testing::ElementsAre(1, 3));
  ASSERT_TRUE(resumed.finish().ok());
  EXPECT_EQ(content("in/f"), text_);
  EXPECT_THAT(parts(), IsEmpty());
}

TEST_F(BlockFileTest, TwoStagingsOfOneFileDoNotMix) {
  const std::string other(33, 'o');
  BlockFile first(folder_, file("f", text_), kBlock);
  EXPECT_FALSE(*first.check(hash_of(block_of(text_, 0))));
  {
    BlockFile second(folder_, file("f", other), kBlock);
    EXPECT_THAT(fill(second, other), SizeIs(4));
    EXPECT_THAT(parts(), SizeIs(2));
    ASSERT_TRUE(second.finish().ok());
  }
  EXPECT_EQ(content("in/f"), other);
  { BlockFile third(folder_, file("f", other + "x"), kBlock); }
  for (std::uint32_t block = 0; block < 4; ++block) {
    if (block > 0) {
      EXPECT_FALSE(*first.check(hash_of(block_of(text_, block))));
    }
    EXPECT_TRUE(first.put(block, block_of(text_, block)).ok());
  }
  ASSERT_TRUE(first.finish().ok());
  EXPECT_EQ(content("in/f"), text_);
  EXPECT_THAT(parts(), IsEmpty());
}

TEST_F(BlockFileTest, ASecondStagingThatBreaksLeavesNoPart) {
  BlockFile first(folder_, file("f", text_), kBlock);
  EXPECT_FALSE(*first.check(hash_of(block_of(text_, 0))));
  {
    BlockFile second(folder_, file("f", text_), kBlock);
    EXPECT_FALSE(*second.check(hash_of(block_of(text_, 0))));
    EXPECT_THAT(parts(), SizeIs(2));
  }
  EXPECT_THAT(parts(), SizeIs(1));
}

TEST_F(BlockFileTest, APartIsNoLinkAndHasNoOtherName) {
  {
    BlockFile broken(folder_, file("f", text_), kBlock);
    EXPECT_FALSE(*broken.check(hash_of(block_of(text_, 0))));
  }
  const fs::path part = root_ / "in" / parts().front();
  put("victim", "mine");
  fs::remove(part);
  fs::create_symlink(root_ / "victim", part);
  BlockFile made(folder_, file("f", text_), kBlock);
  EXPECT_THAT(fill(made, text_), SizeIs(4));
  ASSERT_TRUE(made.finish().ok());
  EXPECT_EQ(content("in/f"), text_);
  EXPECT_EQ(content("victim"), "mine");
}

TEST_F(BlockFileTest, AFolderOfAnotherUserIsRefused) {
  ASSERT_EQ(::chmod((root_ / "in").c_str(), 0777), 0);
  const StageFolder open_to_all = *StageFolder::open((root_ / "in").string());
  BlockFile refused(open_to_all, file("f", text_), kBlock);
  EXPECT_EQ(refused.check(hash_of("x")).status().code(), base::Code::kPermissionDenied);
}

TEST_F(BlockFileTest, ReadsBlocksOfCompleteFiles) {
  put("in/f", text_);
  EXPECT_EQ(*read_block_of_file(folder_, file("f", text_), 3, kBlock), "xyz");
  EXPECT_THAT(read_block_of_file(folder_, file("f", text_ + text_), 5, kBlock).status().message(),
              HasSubstr("shorter"));
  EXPECT_FALSE(read_block_of_file(folder_, file("none", text_), 0, kBlock).ok());
}

TEST(BlockSizes, TheLastBlockIsShorter) {
  EXPECT_EQ(count_of_blocks(0, 10), 0U);
  EXPECT_EQ(count_of_blocks(10, 10), 1U);
  EXPECT_EQ(count_of_blocks(11, 10), 2U);
  EXPECT_EQ(size_of_block(11, 10, 0), 10U);
  EXPECT_EQ(size_of_block(11, 10, 1), 1U);
  EXPECT_EQ(size_of_block(11, 10, 2), 0U);
}

}  // namespace
}  // namespace muster::agent::block_file_test
