#include "launcherd/agents/pool_file.h"

#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::launcherd::pool_file_test {
namespace {

using ::testing::HasSubstr;

class PoolFileTest : public ::testing::Test {
 protected:
  std::string path() const { return directory_ / "agents"; }
  PoolHost& add_host(const std::string& name, int number) {
    PoolHost& host = roster_.at({.name = name, .user = "u", .port = 22});
    roster_.add_agent(host, "token of " + name, number, number + 10);
    return host;
  }

  testing_support::TempDir directory_;
  base::Loop loop_;
  PoolRoster roster_;
};

TEST_F(PoolFileTest, BeginsANewStateWithoutAFile) {
  PoolFile file(loop_, path(), roster_);
  ASSERT_TRUE(file.load().ok());
  EXPECT_FALSE(file.state().id().empty());
  EXPECT_EQ(file.state().control_port(), 0);
}

TEST_F(PoolFileTest, ReadsBackWhatItHasSaved) {
  add_host("n1", 0).up.host_address = *base::IpAddress::parse("10.0.0.1");
  roster_.at({.name = "n2"});  // has no agent
  PoolFile file(loop_, path(), roster_);
  ASSERT_TRUE(file.load().ok());
  file.state().set_control_port(1234);
  ASSERT_TRUE(file.save().ok());
  struct stat info {};
  ASSERT_EQ(::stat(path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0600U);

  const PoolRoster none;
  PoolFile next(loop_, path(), none);
  ASSERT_TRUE(next.load().ok());
  EXPECT_EQ(next.state().id(), file.state().id());
  EXPECT_EQ(next.state().control_port(), 1234);
  ASSERT_EQ(next.state().agents_size(), 1);
  EXPECT_EQ(next.state().agents(0).name(), "n1");
  EXPECT_EQ(next.state().agents(0).token(), "token of n1");
  EXPECT_EQ(next.state().agents(0).number(), 10);
  EXPECT_EQ(next.state().agents(0).host_address(), "10.0.0.1");
}

TEST_F(PoolFileTest, RefusesACorruptFile) {
  ASSERT_TRUE(base::write_file_durably(path(), "no such list").ok());
  PoolFile file(loop_, path(), roster_);
  const base::Status status = file.load();
  EXPECT_EQ(status.code(), base::Code::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("not a list of agents that launcherd wrote"));
}

TEST_F(PoolFileTest, SavesOnceForAllChangesOfATurn) {
  PoolFile file(loop_, path(), roster_);
  ASSERT_TRUE(file.load().ok());
  const auto fail = [](const base::Status& status) { ADD_FAILURE() << status; };
  file.save_soon(fail);
  add_host("n1", 0);
  file.save_soon(fail);
  EXPECT_EQ(base::read_file(path()).status().code(), base::Code::kNotFound);
  loop_.post([this] { loop_.stop(); });
  loop_.run();
  v1::PoolState saved;
  ASSERT_TRUE(saved.ParseFromString(*base::read_file(path())));
  EXPECT_EQ(saved.agents_size(), 1);
}

TEST_F(PoolFileTest, ReportsThatItCouldNotSave) {
  PoolFile file(loop_, directory_ / "missing/agents", roster_);
  ASSERT_TRUE(file.load().ok());
  base::Status status;
  file.save_soon([&](const base::Status& failed) { status = failed; });
  EXPECT_FALSE(file.save_if_due().ok());
  EXPECT_TRUE(file.save_if_due().ok()) << "nothing is due after an attempt";
  file.save_soon([&](const base::Status& failed) { status = failed; });
  loop_.post([this] { loop_.stop(); });
  loop_.run();
  EXPECT_FALSE(status.ok());
}

}  // namespace
}  // namespace muster::launcherd::pool_file_test
