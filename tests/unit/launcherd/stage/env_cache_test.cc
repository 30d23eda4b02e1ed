#include "launcherd/stage/env_cache.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <chrono>
#include <ctime>
#include <filesystem>

#include <gtest/gtest.h>

#include "base/directory.h"
#include "base/sha256.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::launcherd::env_cache_test {
namespace {

EnvArchiveName a_name(char fingerprint = 'f', const std::string& content = "content") {
  return {std::string(16, 'a'), std::string(64, fingerprint), std::string(32, 'c'),
          base::hex_of(*base::sha256_of(content))};
}

StageTree a_tree() {
  StageTree tree;
  v1::StageEntry entry;
  entry.set_kind(v1::StageEntry::KIND_FILE);
  entry.set_path("a");
  entry.set_size(1);
  tree.entries.push_back(entry);
  return tree;
}

class EnvCacheTest : public ::testing::Test {
 protected:
  EnvArchive keep(const EnvArchiveName& name, const std::string& content = "content") {
    const std::string path = cache_.new_path();
    root_.write(path.substr(root_.path().size() + 1), content);
    return std::move(*cache_.keep(path, name));
  }
  std::size_t files() const { return base::entries_of(root_ / "cache").size(); }

  const testing_support::TempDir root_;
  const EnvCache cache_ = *EnvCache::open(root_ / "cache");
};

TEST(EnvArchiveName, IsThatOfAFile) {
  EXPECT_EQ(parse_env_archive_name(file_name_of(a_name())), a_name());
  const std::string name = file_name_of(a_name());
  for (const std::string& other : {name + "x", name.substr(1), "." + name, std::string("a-b-c-d.env"), std::string()}) {
    EXPECT_EQ(parse_env_archive_name(other), std::nullopt) << other;
  }
}

TEST(EnvFingerprint, SeesWhatChanges) {
  const std::string before = *env_fingerprint(a_tree(), {"/e"});
  EXPECT_EQ(*env_fingerprint(a_tree(), {"/e"}), before);
  EXPECT_NE(*env_fingerprint(a_tree(), {"/f"}), before);
  const auto changed = [](auto change) {
    StageTree tree = a_tree();
    change(tree.entries.front());
    return *env_fingerprint(tree, {"/e"});
  };
  EXPECT_NE(changed([](v1::StageEntry& entry) { entry.set_path("b"); }), before);
  EXPECT_NE(changed([](v1::StageEntry& entry) { entry.set_size(2); }), before);
  EXPECT_NE(changed([](v1::StageEntry& entry) { entry.set_mtime_ns(1); }), before);
  EXPECT_NE(changed([](v1::StageEntry& entry) { entry.set_mode(0755); }), before);
  EXPECT_NE(changed([](v1::StageEntry& entry) { entry.set_kind(v1::StageEntry::KIND_LINK); }), before);
  EXPECT_NE(changed([](v1::StageEntry& entry) { entry.set_target("t"); }), before);
}

TEST_F(EnvCacheTest, FindsWhatItKeeps) {
  EXPECT_FALSE(cache_.find(a_name().source, a_name().fingerprint));
  keep(a_name());
  const auto found = cache_.find(a_name().source, a_name().fingerprint);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->name, a_name());
  EXPECT_TRUE(*EnvCache::check(*found, nullptr));
}

TEST_F(EnvCacheTest, KeepsOneArchiveOfASource) {
  keep(a_name('1'));
  keep(a_name('2'));
  EXPECT_EQ(files(), 1U);
  EXPECT_FALSE(cache_.find(a_name().source, std::string(64, '1')));
}

TEST_F(EnvCacheTest, KeepsWhatAProgramSends) {
  {
    const EnvArchive sent = keep(a_name('1'));
    keep(a_name('2'));
    EXPECT_EQ(files(), 2U);
  }
  keep(a_name('3'));
  EXPECT_EQ(files(), 1U);
}

TEST_F(EnvCacheTest, TwoProgramsThatPackAtOnceUseOneFile) {
  const EnvArchive first = keep(a_name());
  keep(a_name());
  EXPECT_EQ(files(), 1U);
  struct stat held {};
  struct stat named {};
  ASSERT_EQ(::fstat(first.held.get(), &held), 0);
  ASSERT_EQ(::stat(first.path.c_str(), &named), 0);
  EXPECT_EQ(held.st_ino, named.st_ino);
}

TEST_F(EnvCacheTest, ToFindAnArchiveKeepsItAndDoesNotChangeIt) {
  constexpr auto kLong = std::chrono::hours(40 * 24);
  const std::string path = keep(a_name()).path;
  const auto time = std::filesystem::file_time_type::clock::now() - kLong;
  const timespec long_ago{.tv_sec = ::time(nullptr) - std::chrono::seconds(kLong).count(), .tv_nsec = 0};
  const timespec both[] = {long_ago, long_ago};
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), both, 0), 0);
  ASSERT_TRUE(cache_.find(a_name().source, a_name().fingerprint));
  // Another program that sends the file would say that it changed.
  EXPECT_LT(std::filesystem::last_write_time(path) - time, std::chrono::minutes(1));
  EnvArchiveName other = a_name('7');
  other.source = std::string(other.source.size(), '7');
  keep(other);
  EXPECT_EQ(files(), 2U);
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), both, 0), 0);
  keep(other);
  EXPECT_EQ(files(), 1U);
}

TEST_F(EnvCacheTest, RemovesADamagedArchive) {
  const EnvArchive archive = keep(a_name(), "damaged");
  EXPECT_FALSE(*EnvCache::check(archive, nullptr));
  EXPECT_EQ(files(), 0U);
}

TEST_F(EnvCacheTest, RefusesAFolderThatOthersMayRead) {
  std::filesystem::permissions(root_ / "cache", std::filesystem::perms::others_read,
                               std::filesystem::perm_options::add);
  EXPECT_FALSE(EnvCache::open(root_ / "cache").ok());
}

}  // namespace
}  // namespace muster::launcherd::env_cache_test
