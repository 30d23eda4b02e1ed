#include "agent/pmix/find_library.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/ids.h"

namespace muster::agent::pmix::find_library_test {
namespace {

using namespace std::string_literals;

class FindLibraryTest : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_ / "lib"); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& content) const {
    std::ofstream(folder_ / name, std::ios::binary) << content;
    return folder_ / name;
  }

  const std::filesystem::path folder_ = std::filesystem::temp_directory_path() / base::JobId::random().str();
};

TEST_F(FindLibraryTest, InTheCacheAndThere) {
  const std::string library = write("lib/libpmix.so.2", "\177ELF");
  EXPECT_TRUE(has_libpmix("", write("cache", "head\0/usr/lib/liba.so\0"s + library + "\0x"s)));
}

TEST_F(FindLibraryTest, InTheCacheAndGone) {
  EXPECT_FALSE(has_libpmix("", write("cache", "\0/nowhere/libpmix.so.2\0"s)));
}

TEST_F(FindLibraryTest, AFileThatIsNoLibraryDoesNotCount) {
  const std::string file = write("lib/libpmix.so.2", "");
  EXPECT_FALSE(has_libpmix((folder_ / "lib").string(), write("cache", "\0"s + file + "\0"s)));
}

TEST_F(FindLibraryTest, InTheLibraryPath) {
  write("lib/libpmix.so.2", "\177ELF");
  EXPECT_TRUE(has_libpmix(":/nowhere:" + (folder_ / "lib").string(), write("cache", "")));
  EXPECT_FALSE(has_libpmix("/nowhere", write("cache", "/libpmix.so.20\0"s)));
}

TEST_F(FindLibraryTest, WithoutACacheNobodyKnows) {
  EXPECT_TRUE(has_libpmix("", (folder_ / "none").string()));
}

}  // namespace
}  // namespace muster::agent::pmix::find_library_test
