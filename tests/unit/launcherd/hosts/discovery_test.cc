#include "launcherd/hosts/discovery.h"

#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/unique_fd.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::launcherd::discovery_test {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Returns "name:slots" of each host, or the error.
std::string discover(const std::string& script, milliseconds limit = std::chrono::seconds(30)) {
  const auto hosts = discover_hosts(script, {.deadline = std::chrono::steady_clock::now() + limit});
  if (!hosts.ok()) return hosts.status().message();
  std::string text;
  for (const model::HostSpec& host : *hosts) text += fmt::format("{}:{} ", host.name, host.slots.value_or(-1));
  return text;
}

// Returns whether the process that wrote its number into the file ends within 30 s.
bool ends(const std::string& file) {
  int pid = 0;
  std::ifstream(file) >> pid;
  if (pid <= 0) return false;
  const base::UniqueFd sleeper(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!sleeper.valid()) return true;  // already reaped
  pollfd end{sleeper.get(), POLLIN, 0};
  return ::poll(&end, 1, 30'000) == 1;
}

TEST(Discovery, AHostALineWithSlotsOrWithout) {
  EXPECT_EQ(discover("echo n1:4; echo; echo n2; echo '# down: n3'; echo noise >&2"), "n1:4 n2:-1 ");
  EXPECT_EQ(discover("echo n1:2; cat"), "n1:2 ");  // its stdin is empty
  EXPECT_EQ(discover("echo n1; echo n2; echo n1:3"), "n1:3 n2:-1 ");
}

TEST(Discovery, MistakesAreNamed) {
  EXPECT_THAT(discover("echo n1; echo n2:x"), HasSubstr("output of host discovery script echo n1; echo n2:x:2:"));
  EXPECT_EQ(
      discover("echo 'no such\tcluster' >&2; exit 3"),
      "host discovery script echo 'no such cluster' >&2; exit 3 ended with exit code 3; it printed: no such cluster");
  EXPECT_EQ(discover("kill -9 $$"), "host discovery script kill -9 $$ was ended by signal 9");
  EXPECT_THAT(discover("echo asleep >&2"),
              HasSubstr("no host is named: a line is 'n1 slots=4' or 'n1:4'; it printed: asleep"));
  EXPECT_THAT(discover("./no_such_program"), HasSubstr("ended with exit code 127; it printed: "));
}

TEST(Discovery, OneThatNeverStopsTalkingIsCutShort) {
  EXPECT_THAT(discover("yes n1"), HasSubstr("yes n1 prints more than 1 MiB"));
  EXPECT_THAT(discover("head -c 2000000 /dev/zero"), HasSubstr("more than 1 MiB"));
  EXPECT_THAT(discover("yes >&2", milliseconds(300)), HasSubstr("took too long and was killed"));
}

TEST(Discovery, NothingIsLeftOfOneThatTakesTooLong) {
  const testing_support::TempDir directory;
  const std::string script = "sleep 1000 & echo $! > " + (directory / "pid") + "; echo waiting >&2; wait";
  const std::string message = discover(script, milliseconds(300));
  EXPECT_THAT(message, StartsWith("host discovery script sleep 1000"));
  EXPECT_THAT(message, HasSubstr("took too long and was killed; it printed: waiting"));
  EXPECT_TRUE(ends(directory / "pid"));
}

TEST(Discovery, AChildThatKeepsTheOutputOpenDoesNotDelayTheAnswer) {
  const testing_support::TempDir directory;
  const std::string file = directory / "pid";
  EXPECT_EQ(discover("sleep 1000 & echo $! > " + file + "; echo n1:2"), "n1:2 ");
  EXPECT_TRUE(ends(file));
}

TEST(Discovery, AnAnswerWithoutHostsIsNotFound) {
  const auto code = [](const std::string& script) {
    return discover_hosts(script, {.deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30)})
        .status()
        .code();
  };
  EXPECT_EQ(code("true"), base::Code::kNotFound);
  EXPECT_EQ(code("echo; echo ' # n1'"), base::Code::kNotFound);
  EXPECT_EQ(code("echo n1:x"), base::Code::kInvalidArgument);
}

TEST(Discovery, TheScriptDiesWithTheThreadThatRunsIt) {
  const testing_support::TempDir directory;
  const std::string file = directory / "pid";
  const pid_t launcher = ::fork();
  ASSERT_GE(launcher, 0);
  if (launcher == 0) {
    discover("echo $$ > " + file + ".new; mv " + file + ".new " + file + "; exec sleep 1000");
    ::_exit(0);
  }
  while (!std::ifstream(file).good()) ::poll(nullptr, 0, 5);
  ::kill(launcher, SIGKILL);
  ASSERT_EQ(::waitpid(launcher, nullptr, 0), launcher);
  EXPECT_TRUE(ends(file));
}

}  // namespace
}  // namespace muster::launcherd::discovery_test
