#include "agent/stage/env_tree.h"

#include <fcntl.h>

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/directory.h"
#include "tests/unit/agent/stage/env_fixture.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::agent::env_tree_test {
namespace {

namespace fs = std::filesystem;
using namespace env_test;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class EnvTreeTest : public ::testing::Test {
 protected:
  base::Status put(const Entries& entries) {
    fs::remove_all(root_ / "env");
    fs::create_directory(root_ / "env");
    EnvTree tree(base::UniqueFd(::open((root_ / "env").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)), "/new");
    for (const auto& [entry, content] : entries) {
      MUSTER_RETURN_IF_ERROR(tree.begin(entry));
      for (const char byte : content) MUSTER_RETURN_IF_ERROR(tree.content({&byte, 1}));
      MUSTER_RETURN_IF_ERROR(tree.end(entry));
    }
    bytes_ = tree.bytes();
    return base::ok_status();
  }

  const testing_support::TempDir root_;
  std::uint64_t bytes_ = 0;
};

TEST_F(EnvTreeTest, WritesFilesThatComeInPieces) {
  ASSERT_EQ(put({a_prefix("/old"), a_folder("bin"), a_file("bin/a", "#!/old/bin/b\n"), a_folder("lib"),
                 a_folder("lib/deep"), a_file("lib/deep/c", "/old"), a_file("d", "")})
                .message(),
            "");
  EXPECT_EQ(root_.read("env/bin/a"), "#!/new/bin/b\n");
  EXPECT_EQ(root_.read("env/lib/deep/c"), "/old");
  EXPECT_EQ(root_.read("env/d"), "");
  EXPECT_EQ(bytes_, 17U);
}

TEST_F(EnvTreeTest, WritesNothingOutside) {
  for (const std::string& path : {std::string("../out"), std::string("/out"), std::string("a/../../out")}) {
    EXPECT_EQ(put({a_file(path, "x")}).code(), base::Code::kDataLoss) << path;
  }
  EXPECT_THAT(put({a_link("a", ".."), a_file("a/out", "x")}).message(), HasSubstr("open the folder of a/out"));
  EXPECT_THAT(put({a_link("a", "../out"), a_file("a", "x")}).message(), HasSubstr("make the file a"));
  EXPECT_THAT(put({a_link("a", ".."), a_folder("a")}).message(), HasSubstr("make the folder a"));
  EXPECT_THAT(base::entries_of(root_.path()), ElementsAre("env"));
}

TEST_F(EnvTreeTest, RefusesAPathThatComesTwice) {
  EXPECT_THAT(put({a_file("a", "x"), a_file("a", "y")}).message(), HasSubstr("make the file a"));
}

}  // namespace
}  // namespace muster::agent::env_tree_test
