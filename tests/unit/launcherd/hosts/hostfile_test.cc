#include "launcherd/hosts/hostfile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/support/temp_dir.h"

namespace muster::launcherd::hostfile_test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class HostfileTest : public ::testing::Test {
 protected:
  std::string write(const std::string& content) const { return directory_.write("hosts", content); }

  testing_support::TempDir directory_;
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
  const std::string path = directory_ / "none";
  const auto hosts = read_hostfile(path);
  ASSERT_FALSE(hosts.ok());
  EXPECT_EQ(hosts.status().code(), base::Code::kNotFound);
  EXPECT_THAT(hosts.status().message(), HasSubstr(path));
}

TEST_F(HostfileTest, DirectoryIsAnError) {
  const auto hosts = read_hostfile(directory_.path());
  ASSERT_FALSE(hosts.ok());
  EXPECT_THAT(hosts.status().message(), HasSubstr(directory_.path()));
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
}  // namespace muster::launcherd::hostfile_test
