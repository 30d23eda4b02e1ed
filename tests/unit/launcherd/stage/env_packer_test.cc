#include "launcherd/stage/env_packer.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/directory.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::launcherd::env_packer_test {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class EnvPackerTest : public ::testing::Test {
 protected:
  EnvPackerTest() { root_.write("env/lib/a", "content"); }

  base::Result<PackedEnv> pack(const std::string& source = "env", const std::string& cache = "cache") {
    return pack_environment(root_ / source, "", root_ / cache, progress_, stop_);
  }

  const testing_support::TempDir root_;
  EnvProgress progress_;
  std::atomic<bool> stop_{false};
};

TEST_F(EnvPackerTest, PacksOnce) {
  const auto packed = pack();
  ASSERT_TRUE(packed.ok()) << packed.status().message();
  EXPECT_TRUE(packed->is_new);
  EXPECT_EQ(packed->files, 1U);
  EXPECT_EQ(packed->bytes, 7U);
  EXPECT_EQ(packed->packed_bytes, fs::file_size(packed->archive.path));
  EXPECT_EQ(progress_.done, progress_.total);
  EXPECT_FALSE(pack()->is_new);
}

TEST_F(EnvPackerTest, EqualEnvironmentsGiveEqualFiles) {
  fs::create_directories(root_ / "other");
  const auto first = pack();
  const auto second = pack("env", "other/cache");
  EXPECT_EQ(first->archive.name, second->archive.name);
}

TEST_F(EnvPackerTest, TimesAreNotInTheId) {
  const std::string id = pack()->archive.name.id;
  fs::last_write_time(root_ / "env/lib/a", fs::file_time_type::clock::now() - std::chrono::hours(1));
  const auto touched = pack();
  EXPECT_TRUE(touched->is_new);
  EXPECT_EQ(touched->archive.name.id, id);
}

TEST_F(EnvPackerTest, KnowsBothPathsOfALink) {
  fs::create_directory_symlink(root_ / "env", root_ / "a-link-to-it");
  EXPECT_THAT(pack("a-link-to-it")->prefixes, ElementsAre(root_ / "a-link-to-it", root_ / "env"));
}

TEST_F(EnvPackerTest, LeavesOutTheMarkOfACopy) {
  const std::string id = pack()->archive.name.id;
  root_.write("env/.muster-env", "boot 7\n");
  EXPECT_EQ(pack()->archive.name.id, id);
}

TEST_F(EnvPackerTest, LeavesNoHalfOfAnArchive) {
  stop_ = true;
  EXPECT_EQ(pack().status().code(), base::Code::kCancelled);
  EXPECT_THAT(base::entries_of(root_ / "cache"), IsEmpty());
}

TEST_F(EnvPackerTest, NamesWhatCannotBeRead) {
  EXPECT_THAT(pack("nothing").status().message(), HasSubstr("--stage-env: look at " + root_ / "nothing"));
  EXPECT_THAT(pack("env/lib/a").status().message(), HasSubstr("is not a folder"));
}

}  // namespace
}  // namespace muster::launcherd::env_packer_test
