#include "agent/proc/agent_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include <gtest/gtest.h>

#include "tests/unit/support/standing_child.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::agent::agent_files_test {
namespace {

using std::chrono::hours;

const base::WallTime kNow = std::chrono::system_clock::from_time_t(1'800'000'000);

class AgentFiles : public ::testing::Test {
 protected:
  std::string stored(const std::string& name, hours idle) {
    const std::string path = folder_.write(name,
                                           "\x7f"
                                           "ELF etc");
    const timespec at{.tv_sec = std::chrono::system_clock::to_time_t(kNow - idle), .tv_nsec = 0};
    const timespec times[2] = {at, at};
    EXPECT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
    return path;
  }
  std::vector<AgentFile> found() { return *find_agent_files(folder_.path(), "ffffffffffffffff", kNow); }

  testing_support::TempDir folder_;
};

TEST_F(AgentFiles, TheLongestIdleComeFirstAndOtherFilesAreLeftOut) {
  stored("agent-1111111111111111-x86_64", hours(30));
  stored(".agent-2222222222222222-x86_64.r4nd", hours(50));
  stored(".agent-2222222222222222-x86_64.r4nd_new", hours(40));
  stored("notes", hours(99));
  std::filesystem::create_directory(folder_.path() + "/agent-folder");
  std::filesystem::create_symlink("notes", folder_.path() + "/agent-link");
  const auto files = found();
  ASSERT_EQ(files.size(), 3U);
  EXPECT_EQ(files[1].path, folder_.path() + "/.agent-2222222222222222-x86_64.r4nd_new");  // muster-unpack was killed
  EXPECT_EQ(files[0].path, folder_.path() + "/.agent-2222222222222222-x86_64.r4nd");
  EXPECT_EQ(files[0].idle, hours(50));
  EXPECT_EQ(files[0].size, 8);
  EXPECT_FALSE(files[0].is_used);
  EXPECT_FALSE(files[0].is_own);
  EXPECT_EQ(find_agent_files(folder_.path() + "/none", "f", kNow).status().code(), base::Code::kNotFound);
}

TEST_F(AgentFiles, AFileIsUsedIfItWasMarkedOrAProcessHasItsName) {
  stored("agent-1111111111111111-x86_64", hours(1));
  stored("agent-2222222222222222-x86_64", hours(2));
  EXPECT_FALSE(found()[0].is_used);
  EXPECT_TRUE(found()[1].is_used);
  const std::string program = folder_.path() + "/agent-3333333333333333-x86_64";
  std::filesystem::copy_file("/bin/sh", program);
  const timespec old[2] = {{.tv_sec = 1, .tv_nsec = 0}, {.tv_sec = 1, .tv_nsec = 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, program.c_str(), old, 0), 0);
  const testing_support::StandingChild child(2, [&](int output) {
    ::dup2(output, STDOUT_FILENO);
    ::execl(program.c_str(), program.c_str(), "-c", "echo up; kill -STOP $$", nullptr);
  });
  ASSERT_TRUE(child.is_ready());
  EXPECT_EQ(found()[0].path, program);
  EXPECT_TRUE(found()[0].is_used);
}

TEST_F(AgentFiles, FilesOfTheUserAreNoAgents) {
  for (const char* const name :
       {"agent-monitor.py", ".agent-settings", "agent-1111-x86_64", "agent-1111111111111111",
        "agent-111111111111111g-x86_64", "agent-1111111111111111-x86_64.old", ".agent-1111111111111111-x86_64",
        ".agent-1111111111111111-x86_64.", "agent-1111111111111111-", "agent-11111111111111112-x86_64"}) {
    stored(name, hours(999));
  }
  folder_.write("agent-2222222222222222-x86_64", "#!/bin/sh\n");
  EXPECT_EQ(found().size(), 0U);
}

TEST_F(AgentFiles, ThoseOfThisBuildAreOwnWhereverThisProgramIs) {
  stored("agent-ffffffffffffffff-x86_64", hours(99));
  EXPECT_TRUE(found().at(0).is_own);
}

TEST_F(AgentFiles, RemovesOnlyWhatIsAsItWas) {
  const std::string path = stored("agent-1111111111111111-x86_64", hours(30));
  const AgentFile file = found().at(0);
  stored("agent-1111111111111111-x86_64", hours(1));
  EXPECT_EQ(remove_agent_file(file, kNow).code(), base::Code::kFailedPrecondition);
  EXPECT_TRUE(std::filesystem::exists(path));
  stored("agent-1111111111111111-x86_64", hours(30));
  EXPECT_TRUE(remove_agent_file(file, kNow).ok());
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace muster::agent::agent_files_test
