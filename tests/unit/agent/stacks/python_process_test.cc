// Stacks of real interpreters: /usr/bin/python3, and those of pyenv where there are some.
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/stacks/python_stack.h"
#include "base/unique_fd.h"
#include "tests/unit/support/standing_child.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::agent::python_process_test {
namespace {

using testing::HasSubstr;
using testing_support::TempDir;

// Every thread waits in the same lock, each within another kind of code.
constexpr std::string_view kHangs = R"(import threading, time

lock = threading.Lock()
lock.acquire()


class Model:
    def forward(self):
        lock.acquire()


def generator():
    yield lock.acquire()


def comprehension():
    return [
        lock.acquire()
        for _ in range(3)
    ]


def c_call():
    return list(map(lambda x: lock.acquire(), [1]))


def größe():
    lock.acquire()


def 関数():
    def inner():
        größe()
    inner()


space = {"lock": lock}
exec(compile("def made():\n\n    lock.acquire()\n", "<made>", "exec"), space)
for f in (Model().forward, lambda: next(generator()), comprehension, c_call, 関数, space["made"]):
    threading.Thread(target=f, daemon=True).start()


def main():
    print("up", flush=True)
    time.sleep(1000)


main()
)";

// Its stack changes all the time. Each function is called from one line only.
constexpr std::string_view kRuns = R"(def leaf_f():
    return sum(i for i in range(3))
def leaf_g():
    return sum(i for i in range(3))
def f():
    return leaf_f()
def g():
    return leaf_g()
print("up", flush=True)
while True:
    f()
    g()
)";

std::vector<std::string> interpreters() {
  std::vector<std::string> found;
  if (std::filesystem::exists("/usr/bin/python3")) found.push_back("/usr/bin/python3");
  const char* const home = std::getenv("HOME");
  std::error_code error;
  for (const auto& version :
       std::filesystem::directory_iterator(std::string(home ? home : "") + "/.pyenv/versions", error)) {
    const auto path = version.path() / "bin/python3";
    const std::string name = version.path().filename();
    const bool is_known = name.starts_with("3.8.") || name.starts_with("3.9.") || name.starts_with("3.1");
    if (is_known && std::filesystem::exists(path)) found.push_back(path);
  }
  std::ranges::sort(found);
  return found;
}

// An interpreter that runs a script, which has printed "up".
class Script {
 public:
  Script(const std::string& python, std::string_view text)
      : path_(dir_.write("train.py", text)), process_(python, path_.c_str()) {}

  pid_t pid() const { return process_.pid(); }
  bool is_up() const { return process_.is_ready(); }
  const std::string& path() const { return path_; }

 private:
  const TempDir dir_;
  const std::string path_;
  const testing_support::StandingPython process_;
};

// Root to leaf, as "main:3 step:10", without the frames of other files.
std::string text_of(const PythonStack& stack, const std::string& file) {
  std::string text;
  for (auto frame = stack.frames.rbegin(); frame != stack.frames.rend(); ++frame) {
    if (frame->file != file && frame->file != "<made>") continue;
    text += fmt::format("{}{}:{}", text.empty() ? "" : " ", frame->function, frame->line);
  }
  return text;
}

class PythonProcessTest : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Interpreters, PythonProcessTest, ::testing::ValuesIn(interpreters()));
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(PythonProcessTest);

// Returns the names as this version has them: qualified since 3.11, comprehensions inline since 3.12.
std::set<std::string> expected(const std::string& version) {
  const int minor = std::stoi(version.substr(2));
  std::set<std::string> stacks = {"<module>:48 main:45", "<lambda>:39 generator:13", "made:3"};
  stacks.insert(minor < 11 ? "forward:9" : "Model.forward:9");
  stacks.insert(minor < 11 ? "関数:34 inner:33 größe:28" : "関数:34 関数.<locals>.inner:33 größe:28");
  stacks.insert(minor < 11 ? "c_call:24 <lambda>:24" : "c_call:24 c_call.<locals>.<lambda>:24");
  stacks.insert(minor < 11   ? "comprehension:17 <listcomp>:18"
                : minor < 12 ? "comprehension:17 comprehension.<locals>.<listcomp>:18"
                             : "comprehension:18");
  return stacks;
}

TEST_P(PythonProcessTest, EveryThreadIsAtItsExactLine) {
  const Script script(GetParam(), kHangs);
  ASSERT_TRUE(script.is_up());
  std::optional<PythonStacks> stacks;
  std::set<std::string> texts;
  // The threads are up, but may not have reached the lock yet.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (std::chrono::steady_clock::now() < deadline && (!stacks || texts != expected(stacks->version))) {
    stacks = read_python_stacks(script.pid());
    ASSERT_TRUE(stacks);
    ASSERT_EQ(stacks->problem, "");
    texts.clear();
    for (const PythonStack& stack : stacks->threads) texts.insert(text_of(stack, script.path()));
  }
  EXPECT_EQ(texts, expected(stacks->version));
  std::set<pid_t> tids;
  for (const PythonStack& stack : stacks->threads) {
    EXPECT_EQ(stack.problem, "");
    tids.insert(stack.tid);
  }
  EXPECT_EQ(tids.size(), 7u);
  EXPECT_TRUE(tids.contains(script.pid()));
  EXPECT_FALSE(tids.contains(0));
}

TEST_P(PythonProcessTest, AStackThatChangesIsPossibleOrMarked) {
  const Script script(GetParam(), kRuns);
  ASSERT_TRUE(script.is_up());
  constexpr int kReads = 2000;
  int marked = 0;
  for (int i = 0; i < kReads; ++i) {
    const auto stacks = read_python_stacks(script.pid());
    ASSERT_TRUE(stacks && stacks->threads.size() == 1) << i;
    const PythonStack& stack = stacks->threads.front();
    if (!stack.problem.empty()) {
      ++marked;
      continue;
    }
    const std::string text = text_of(stack, script.path());
    EXPECT_TRUE(text.starts_with("<module>:")) << text;
    if (text.find("f:") != std::string::npos) {
      EXPECT_TRUE(text.starts_with("<module>:11 f:")) << text;
      EXPECT_EQ(text.find("g:"), std::string::npos) << text;
    }
    if (text.find("g:") != std::string::npos) {
      EXPECT_TRUE(text.starts_with("<module>:12 g:")) << text;
    }
  }
  RecordProperty("marked", marked);
  EXPECT_LT(marked, kReads);
}

// The process is not stopped. So this bounds the time during which its memory may be locked.
TEST_P(PythonProcessTest, AReadingTakesFewMilliseconds) {
  const Script script(GetParam(), kHangs);
  ASSERT_TRUE(script.is_up());
  auto shortest = std::chrono::steady_clock::duration::max();
  for (int i = 0; i < 20; ++i) {
    const auto start = std::chrono::steady_clock::now();
    ASSERT_TRUE(read_python_stacks(script.pid()));
    shortest = std::min(shortest, std::chrono::steady_clock::now() - start);
  }
  // 0.4 to 1.1 ms for seven threads. A sanitizer takes ten times as long.
  EXPECT_LT(shortest, std::chrono::milliseconds(50));
}

TEST(PythonProcess, AProcessWithoutPythonHasNoStacks) {
  EXPECT_FALSE(read_python_stacks(0x3ffffff0));
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (true) ::pause();
  }
  EXPECT_FALSE(read_python_stacks(child));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

// A program named python without symbols stands for a stripped interpreter: only its name says what it is.
TEST(PythonProcess, AnInterpreterWithoutSymbolsIsNamed) {
  const TempDir dir;
  const std::string program = dir / "python3.11";
  std::filesystem::copy_file("/bin/sleep", program);
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::execl(program.c_str(), program.c_str(), "1000", nullptr);
    ::_exit(127);
  }
  std::optional<PythonStacks> stacks;
  while (!stacks) stacks = read_python_stacks(child);  // until the exec
  EXPECT_THAT(stacks->problem, HasSubstr("exports _PyRuntime"));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace muster::agent::python_process_test
