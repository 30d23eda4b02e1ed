#include "agent/probe/logind.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "tests/unit/support/temp_dir.h"

namespace muster::agent::logind_test {
namespace {

LogindSettings parsed(std::string_view content) {
  LogindSettings settings;
  read_logind_file(content, settings);
  return settings;
}

TEST(Logind, ReadsTheLoginSectionAlone) {
  const LogindSettings settings = parsed(
      "# KillUserProcesses=no\n"
      "[Other]\nKillUserProcesses=maybe\n"
      "[Login]\r\n  KillUserProcesses = yes  \n;RemoveIPC=yes\nRemoveIPC=no\nRemoveIPC\n"
      "[Sleep]\nRemoveIPC=yes");
  EXPECT_EQ(settings.kill_user_processes, "yes");
  EXPECT_EQ(settings.remove_ipc, "no");
}

TEST(Logind, WhatIsNotSetIsEmptyAndAnEmptyValueTakesBack) {
  EXPECT_EQ(parsed("").kill_user_processes, "");
  EXPECT_EQ(parsed("[Login]\n#KillUserProcesses=no\n").kill_user_processes, "");
  EXPECT_EQ(parsed("KillUserProcesses=yes\n").kill_user_processes, "");  // in no section
  EXPECT_EQ(parsed("[Login]\nKillUserProcesses=yes\nKillUserProcesses=\n").kill_user_processes, "");
}

class LogindFilesTest : public ::testing::Test {
 protected:
  testing_support::TempDir files_;
  const std::string& root_ = files_.path();
};

TEST_F(LogindFilesTest, NothingIsThere) {
  const LogindSettings settings = read_logind_settings(root_);
  EXPECT_EQ(settings.kill_user_processes + settings.remove_ipc, "");
  EXPECT_FALSE(is_systemd_running(root_));
  EXPECT_FALSE(does_user_linger(root_, "alice"));
}

TEST_F(LogindFilesTest, DropInsComeAfterTheFileInTheOrderOfTheirNames) {
  files_.write("etc/systemd/logind.conf", "[Login]\nKillUserProcesses=no\nRemoveIPC=yes\n");
  files_.write("usr/lib/systemd/logind.conf.d/90-site.conf", "[Login]\nKillUserProcesses=yes\n");
  files_.write("etc/systemd/logind.conf.d/10-own.conf", "[Login]\nKillUserProcesses=no\n");
  files_.write("etc/systemd/logind.conf.d/99-own.txt", "[Login]\nRemoveIPC=no\n");
  const LogindSettings settings = read_logind_settings(root_);
  EXPECT_EQ(settings.kill_user_processes, "yes");
  EXPECT_EQ(settings.remove_ipc, "yes");
}

TEST_F(LogindFilesTest, ADropInOfTheAdministratorHidesTheVendorsOfThatName) {
  files_.write("usr/lib/systemd/logind.conf", "[Login]\nRemoveIPC=no\n");
  files_.write("usr/lib/systemd/logind.conf.d/50-kill.conf", "[Login]\nKillUserProcesses=yes\n");
  files_.write("etc/systemd/logind.conf.d/50-kill.conf", "");
  const LogindSettings settings = read_logind_settings(root_);
  EXPECT_EQ(settings.kill_user_processes, "");
  EXPECT_EQ(settings.remove_ipc, "no");
}

TEST_F(LogindFilesTest, LingerAndSystemd) {
  std::filesystem::create_directories(files_ / "run/systemd/system");
  files_.write("var/lib/systemd/linger/alice", "");
  EXPECT_TRUE(is_systemd_running(root_));
  EXPECT_TRUE(does_user_linger(root_, "alice"));
  EXPECT_FALSE(does_user_linger(root_, "bob"));
  EXPECT_FALSE(does_user_linger(root_, ""));
  EXPECT_FALSE(does_user_linger(root_, "../linger/alice"));
}

}  // namespace
}  // namespace muster::agent::logind_test
