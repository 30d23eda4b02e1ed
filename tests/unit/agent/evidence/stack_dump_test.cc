// Stacks that Python programs write by faulthandler. The programs do what python/muster/stack_dumps.py does.
#include "agent/evidence/stack_dump.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/unique_fd.h"
#include "tests/unit/support/standing_child.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::agent::stack_dump_test {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(StackDump, ParsesTheHeader) {
  const auto header = parse_stack_dump_header("muster stack 1 62 12345");
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->signal, 62);
  EXPECT_EQ(header->start_time, 12345U);
  for (const char* bad : {"", "muster stack 1 ", "muster stack 2 62 1", "muster stack 1 62", "muster stack 1 62 1 2",
                          "muster stack 1 x 1", "muster stack 1 62 -1", "muster stack 1 9 1", "muster stack 1 65 1"}) {
    EXPECT_FALSE(parse_stack_dump_header(bad).ok()) << bad;
  }
}

TEST(StackDump, ParsesTheFirstStack) {
  const auto frames = parse_stack_dump(
      "Stack (most recent call first):\n"
      "  File \"/home/alice/a \"b\".py\", line 12 in load\n"
      "  File \"<string>\", line ??? in <module>\n"
      "\nStack (most recent call first):\n  File \"x\", line 1 in y\n");
  ASSERT_EQ(frames.size(), 2U);
  EXPECT_EQ(frames[0], (PythonFrame{.function = "load", .file = "/home/alice/a \"b\".py", .line = 12}));
  EXPECT_EQ(frames[1], (PythonFrame{.function = "<module>", .file = "<string>", .line = 0}));
}

TEST(StackDump, JunkHasNoFrames) {
  for (const char* junk : {"", "\n\n", "Stack (most recent call first):\n  <no Python frame>\n", "  File \"",
                           "  File \"x\"", "  File \"x\", line 3", "File \"x\", line 3 in f"}) {
    EXPECT_THAT(parse_stack_dump(junk), IsEmpty()) << junk;
  }
  std::string many;
  for (int i = 0; i < 1000; ++i) many += "  File \"x\", line 1 in y\n";
  EXPECT_EQ(parse_stack_dump(many).size(), kMaxPythonFrames);
}

// Its arguments: the session's directory, and what it writes as its start time, or "own".
constexpr const char* kProgram = R"(
import faulthandler, os, sys, time
file = os.open(sys.argv[1] + f"/stack-{os.getpid()}", os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
if sys.argv[2] != "unhandled":
    faulthandler.register(62, file=file, all_threads=False)
start = open("/proc/self/stat").read().rpartition(')')[2].split()[19] if sys.argv[2] != "other" else "1"
os.write(file, f"muster stack 1 62 {start}\n".encode())
def nap():
    print("up", flush=True); time.sleep(1000)
nap()
)";

class StackDumpTest : public ::testing::Test {
 protected:
  base::Result<std::vector<PythonFrame>> ask(pid_t pid, std::chrono::milliseconds patience = 20s) const {
    return ask_stack_dump(dir_.path(), read_process(pid).value(), std::chrono::steady_clock::now() + patience);
  }

  const testing_support::TempDir dir_;
};

TEST_F(StackDumpTest, AsksAProgramAgainAndAgain) {
  const testing_support::StandingPython child("/usr/bin/python3", "-c", kProgram, dir_.path().c_str(), "own");
  ASSERT_TRUE(child.is_ready());
  for (int i = 0; i < 3; ++i) {
    const auto frames = ask(child.pid());
    ASSERT_TRUE(frames.ok()) << frames.status();
    ASSERT_EQ(frames->size(), 2U);
    EXPECT_EQ((*frames)[0], (PythonFrame{.function = "nap", .file = "<string>", .line = 9}));
    EXPECT_EQ((*frames)[1].function, "<module>");
  }
}

TEST_F(StackDumpTest, SignalsNoProcessThatDoesNotHandleIt) {
  for (const char* what : {"unhandled", "other"}) {
    const testing_support::StandingPython child("/usr/bin/python3", "-c", kProgram, dir_.path().c_str(), what);
    ASSERT_TRUE(child.is_ready());
    EXPECT_EQ(ask(child.pid()).status().code(), base::Code::kNotFound) << what;
    EXPECT_EQ(::waitpid(child.pid(), nullptr, WNOHANG), 0) << "it lives";
  }
}

TEST_F(StackDumpTest, SaysWhyThereIsNoStack) {
  EXPECT_THAT(ask(::getpid()).status().message(), HasSubstr("has not called muster.enable_stack_dumps()"));
  const testing_support::StandingPython child("/usr/bin/python3", "-c", kProgram, dir_.path().c_str(), "own");
  ASSERT_TRUE(child.is_ready());
  const std::string path = dir_.path() + "/stack-" + std::to_string(child.pid());
  {
    const base::UniqueFd other(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    ASSERT_EQ(::flock(other.get(), LOCK_EX), 0);
    EXPECT_EQ(ask(child.pid()).status().code(), base::Code::kUnavailable);
  }
  ASSERT_EQ(::kill(child.pid(), SIGSTOP), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child.pid(), &status, WUNTRACED), child.pid());
  EXPECT_EQ(ask(child.pid(), 50ms).status().code(), base::Code::kDeadlineExceeded)
      << "a stopped program writes nothing";
}

}  // namespace
}  // namespace muster::agent::stack_dump_test
