#include "launcherd/hosts/hostfile.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::launcherd {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class HostfileTest : public ::testing::Test {
 protected:
  HostfileTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "hostfile_test.XXXXXX").string();
    directory_ = ::mkdtemp(pattern.data());
  }
  ~HostfileTest() override { std::filesystem::remove_all(directory_); }

  std::string write(const std::string& content) {
    const auto path = directory_ / "hosts";
    std::ofstream(path, std::ios::binary) << content;
    return path.string();
  }

  std::filesystem::path directory_;
};

TEST_F(HostfileTest, ReadsHostsInOrder) {
  const auto hosts = read_hostfile(write("n1 slots=4\n\nn2:2 # spare\n"));
  ASSERT_TRUE(hosts.ok()) << hosts.status();
  ASSERT_EQ(hosts->size(), 2u);
  EXPECT_EQ((*hosts)[0].name, "n1");
  EXPECT_EQ((*hosts)[0].slots, 4);
  EXPECT_EQ((*hosts)[1].name, "n2");
  EXPECT_EQ((*hosts)[1].slots, 2);
}

TEST_F(HostfileTest, NamesFileLineAndColumnOfAMistake) {
  const std::string path = write("n1\nn2 slots=x\n");
  const auto hosts = read_hostfile(path);
  ASSERT_FALSE(hosts.ok());
  EXPECT_EQ(hosts.status().code(), base::Code::kInvalidArgument);
  EXPECT_THAT(hosts.status().message(), StartsWith(path + ":2:10: slots must be a number"));
}

TEST_F(HostfileTest, MissingFileIsNamed) {
  const std::string path = (directory_ / "none").string();
  const auto hosts = read_hostfile(path);
  ASSERT_FALSE(hosts.ok());
  EXPECT_EQ(hosts.status().code(), base::Code::kNotFound);
  EXPECT_THAT(hosts.status().message(), HasSubstr(path));
}

TEST_F(HostfileTest, DirectoryIsAnError) {
  const auto hosts = read_hostfile(directory_.string());
  ASSERT_FALSE(hosts.ok());
  EXPECT_THAT(hosts.status().message(), HasSubstr(directory_.string()));
}

TEST_F(HostfileTest, EndlessFileIsCutOff) {
  const auto hosts = read_hostfile("/dev/zero");
  ASSERT_FALSE(hosts.ok());
  EXPECT_EQ(hosts.status().code(), base::Code::kResourceExhausted);
}

TEST_F(HostfileTest, LargestListFits) {
  std::string content;
  for (int i = 0; i < model::kMaxHosts; ++i) content += fmt::format("compute-node-{:06}.site.example slots=128\n", i);
  ASSERT_LT(content.size(), kMaxHostfileBytes);
  const auto hosts = read_hostfile(write(content));
  ASSERT_TRUE(hosts.ok()) << hosts.status();
  EXPECT_EQ(hosts->size(), static_cast<std::size_t>(model::kMaxHosts));
}

}  // namespace
}  // namespace muster::launcherd
