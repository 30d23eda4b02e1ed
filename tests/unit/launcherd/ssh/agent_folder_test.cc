// Tests how a login shell runs the command that starts an agent in a folder of the user's choice.
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcherd/bootstrap/failure.h"
#include "launcherd/bootstrap/remote_command.h"
#include "launcherd/enrol/site_files.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::launcherd::agent_folder_test {
namespace {

using ::testing::HasSubstr;

constexpr uid_t kStranger = 4242;

struct Ended {
  int exit_status = -1;
  std::string text;
};

class AgentFolderTest : public ::testing::Test {
 protected:
  std::string make(const std::string& path, unsigned mode, uid_t owner = ::geteuid(), gid_t group = ::getegid()) const {
    const std::string made = dir_ / path;
    EXPECT_TRUE(::mkdir(made.c_str(), 0700) == 0 && ::chown(made.c_str(), owner, group) == 0 &&
                ::chmod(made.c_str(), mode) == 0);
    return made;
  }
  static RemotePaths paths_in(const std::string& folder) { return remote_paths(folder, "id", "x86_64", "r").value(); }
  void put_agent(const std::string& path) const {
    const std::string name = path.substr(dir_.path().size() + 1);
    EXPECT_EQ(dir_.write(name, "#!/bin/sh\necho ran $@\n"), path);
    EXPECT_EQ(::chmod(path.c_str(), 0700), 0);
  }
  static Ended run(const std::string& command) {
    Ended ended;
    FILE* const output = ::popen(("exec 2>&1; " + command).c_str(), "r");
    char piece[4096];
    for (std::size_t size = 0; (size = ::fread(piece, 1, sizeof piece, output)) > 0;) ended.text.append(piece, size);
    const int status = ::pclose(output);
    ended.exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return ended;
  }
  // Starts the agent that lies in `folder`.
  Ended start_in(const std::string& folder) const {
    const RemotePaths paths = paths_in(folder);
    put_agent(paths.agent);
    return run(cached_command(paths, {"--stdio"}));
  }
  void expect_refused(const std::string& folder, const std::string& why) const {
    const Ended ended = start_in(folder);
    EXPECT_THAT(ended.text, HasSubstr(why));
    EXPECT_EQ(classify_agent_end(ended.exit_status, ended.text, ""), FailureKind::kUnsafeFolder) << ended.exit_status;
    EXPECT_EQ(place_agent(folder, "id", *AgentImage::open("/bin/true")).status().code(), base::Code::kPermissionDenied)
        << folder;
  }

  const testing_support::TempDir dir_;
};

TEST_F(AgentFolderTest, AnAgentOfOursIsRunWithItsArguments) {
  make("tmp", 01777);
  for (const std::string& folder : {make("plain", 0755), make("tmp/own", 0700), dir_ / "tmp"}) {
    const Ended ended = start_in(folder);
    EXPECT_EQ(ended.text, "ran --stdio\n") << folder;
  }
  const RemotePaths paths = paths_in(dir_ / "plain");
  put_agent(paths.temporary);
  EXPECT_EQ(run(install_command(paths, "5ha", {"--stdio"})).text, "ran --install 5ha " + paths.agent + " --stdio\n");
}

TEST_F(AgentFolderTest, OneThatIsNotThereIsMissing) {
  const Ended no_folder = run(cached_command(paths_in(dir_ / "none"), {"--stdio"}));
  EXPECT_EQ(classify_agent_end(no_folder.exit_status, no_folder.text, ""), FailureKind::kAgentMissing);
  make("plain", 0755);
  const RemotePaths paths = paths_in(dir_ / "plain");
  EXPECT_EQ(run(cached_command(paths, {"--stdio"})).exit_status, 127);
  put_agent(dir_ / "elsewhere");
  ASSERT_EQ(::symlink((dir_ / "elsewhere").c_str(), paths.agent.c_str()), 0);
  EXPECT_EQ(run(cached_command(paths, {"--stdio"})).exit_status, 127) << "a link may lead to any program of ours";
}

TEST_F(AgentFolderTest, AFolderThatOthersCanExchangeIsRefused) {
  expect_refused(make("open", 0777), "every user may write into");
  expect_refused(make("open/own", 0755), "every user may write into");
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a folder to another user";
  expect_refused(make("bobs", 0777, kStranger), "may write into");
  expect_refused(make("closed", 0755, kStranger), "belongs to another user");
  expect_refused(make("group", 0775, ::geteuid(), kStranger), "its group may write into");
  make("tmp", 01777);
  make("tmp/bobs", 0755, kStranger);
  expect_refused(make("tmp/bobs/own", 0755), "belongs to another user");
}

TEST_F(AgentFolderTest, AProjectsFolderOfAnotherOwnerIsNoReasonToRefuse) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a folder to another user";
  make("lab", 02770, kStranger);
  EXPECT_EQ(start_in(make("lab/own", 0755)).text, "ran --stdio\n");
}

}  // namespace
}  // namespace muster::launcherd::agent_folder_test
