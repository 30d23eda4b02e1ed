#include "agent/commands/stack_reader.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <functional>
#include <future>
#include <memory>

#include <gtest/gtest.h>

#include "tests/unit/support/temp_dir.h"

namespace muster::agent::stack_reader_test {
namespace {

// Stands in for the agent's own program.
class Program {
 public:
  explicit Program(const std::string& script) : path_(dir_.write("program", "#!/bin/sh\n" + script)) {
    ::chmod(path_.c_str(), 0700);
  }
  const std::string& path() const { return path_; }

 private:
  const testing_support::TempDir dir_;
  const std::string path_;
};

std::string frame_of(const v1::ProcessStack& process) {
  const std::string body = process.SerializeAsString();
  std::string frame;
  for (int shift = 0; shift < 32; shift += 8) frame += fmt::format("\\{:03o}", body.size() >> shift & 0xff);
  for (const char c : body) frame += fmt::format("\\{:03o}", static_cast<unsigned char>(c));
  return frame;
}

struct AskOptions {
  std::chrono::milliseconds patience = std::chrono::minutes(1);
  bool is_native = false;
  bool opens_memories = false;
  std::function<base::Result<base::UniqueFd>(pid_t)> open_memory = ProcessMemory::open_fd;
};

// The answers to one question.
std::vector<v1::StackAnswer> ask(const std::string& script, const std::map<int, pid_t>& pids,
                                 const AskOptions& options = {}) {
  const Program program(script);
  base::Loop loop;
  std::vector<v1::StackAnswer> answers;
  StackReader reader(loop,
                     [&](v1::StackAnswer answer) {
                       answers.push_back(std::move(answer));
                       if (answers.back().done()) loop.stop();
                     },
                     {.program = program.path(),
                      .patience = options.patience,
                      .opens_memories = options.opens_memories,
                      .opening_patience = std::chrono::milliseconds(200),
                      .open_memory = options.open_memory});
  loop.post([&] { reader.ask(7, pids, options.is_native); });
  loop.run();
  EXPECT_EQ(reader.pid(), 0);
  for (const v1::StackAnswer& answer : answers) EXPECT_EQ(answer.id(), 7u);
  return answers;
}

TEST(StackReader, PassesProcessesOn) {
  v1::ProcessStack process;
  process.set_rank(3);
  process.set_pid(42);
  const std::string frame = frame_of(process);
  const auto answers = ask(fmt::format("printf '{}{}'", frame, frame), {{3, ::getpid()}});
  ASSERT_EQ(answers.size(), 3u);
  EXPECT_EQ(answers[0].process().pid(), 42);
  EXPECT_EQ(answers[1].process().rank(), 3);
  EXPECT_FALSE(answers[2].has_process());
  EXPECT_EQ(answers[2].problem(), "");
}

TEST(StackReader, TellsItsProgramTheTargets) {
  const auto answers = ask("[ \"$*\" = '--stacks 0:11 5:12' ] || printf junk", {{0, 11}, {5, 12}});
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].problem(), "");
}

TEST(StackReader, TellsItsProgramToReadNativeFunctions) {
  const auto answers = ask("[ \"$*\" = '--stacks --native 0:11' ] || printf junk", {{0, 11}}, {.is_native = true});
  EXPECT_EQ(answers.back().problem(), "");
}

// With kernel.yama.ptrace_scope=1, the program itself may not open the memory.
TEST(StackReader, HandsOpenMemoriesToItsProgram) {
  const std::string own = std::to_string(::getpid());
  const auto answers = ask("word=$2; fd=${word##*:}; [ \"$word\" = --memory=" + own +
                               ":$fd ] && [ \"$(readlink /proc/$$/fd/$fd)\" = /proc/" + own + "/mem ] || printf junk",
                           {{0, ::getpid()}}, {.opens_memories = true});
  EXPECT_EQ(answers.back().problem(), "");
}

// A call that does not return stands for a process that hangs in its exec. The program then reports why it cannot read
// the memory.
TEST(StackReader, DoesNotWaitForAMemoryThatCannotBeOpened) {
  std::promise<void> release;
  const auto calls = std::make_shared<std::atomic<int>>(0);
  const auto hang = [calls, released = release.get_future().share()](pid_t) -> base::Result<base::UniqueFd> {
    ++*calls;
    released.wait();
    return base::not_found("ended");
  };
  const auto answers = ask(fmt::format("[ \"$*\" = '--stacks 0:{}' ] || printf junk", ::getpid()), {{0, ::getpid()}},
                           {.opens_memories = true, .open_memory = hang});
  EXPECT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers.back().problem(), "");
  EXPECT_EQ(*calls, 1);
  release.set_value();
}

TEST(StackReader, OpensTheMemoryOfAStoppedRank) {
  const pid_t child = ::fork();
  if (child == 0) {
    while (true) ::pause();
  }
  ::kill(child, SIGSTOP);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, WUNTRACED), child);
  const auto answers = ask(fmt::format("case $2 in --memory={}:*) ;; *) printf junk ;; esac", child), {{0, child}},
                           {.opens_memories = true});
  EXPECT_EQ(answers.back().problem(), "");
  ::kill(child, SIGKILL);
  ::waitpid(child, &status, 0);
}

// The thread of one reading may end while the next begins.
TEST(StackReader, EachOfManyReadingsHasMemories) {
  const Program program("case $2 in --memory=*) ;; *) exit 1 ;; esac");
  base::Loop loop;
  std::vector<std::string> problems;
  StackReader reader(loop,
                     [&](const v1::StackAnswer& answer) {
                       problems.push_back(answer.problem());
                       if (problems.size() == 20) loop.stop();
                     },
                     {.program = program.path(), .opens_memories = true});
  loop.post([&] {
    for (std::uint64_t id = 1; id <= 20; ++id) reader.ask(id, {{0, ::getpid()}}, false);
  });
  loop.run();
  EXPECT_EQ(problems, std::vector<std::string>(20));
}

TEST(StackReader, NothingToAskIsAnsweredAtOnce) {
  EXPECT_EQ(ask("exec sleep 1000", {}).size(), 1u);
}

TEST(StackReader, JunkIsAProblem) {
  EXPECT_NE(ask("printf 'junk that is no frame'", {{0, 1}}).back().problem(), "");
  EXPECT_NE(ask("printf '\\005\\000\\000\\000ab'", {{0, 1}}).back().problem(), "");
  EXPECT_NE(ask("printf '\\004\\000\\000\\000\\377\\377\\377\\377'", {{0, 1}}).back().problem(), "");
  EXPECT_NE(ask("printf '\\377\\377\\377\\177'; exec sleep 1000", {{0, 1}}).back().problem(), "");
}

// As when it meets a file that its library cannot bear.
TEST(StackReader, AReadingThatFailsIsNotWhole) {
  EXPECT_NE(ask("exit 1", {{0, ::getpid()}}).back().problem().find("exit code 1"), std::string::npos);
  EXPECT_NE(ask("kill -SEGV $$", {{0, ::getpid()}}).back().problem().find("signal 11"), std::string::npos);
}

TEST(StackReader, AReadingThatHangsIsEnded) {
  const auto answers = ask("exec sleep 1000", {{0, ::getpid()}}, {.patience = std::chrono::milliseconds(50)});
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_NE(answers[0].problem().find("no result"), std::string::npos);
}

// What a tracer that is killed can leave behind.
TEST(StackReader, ThreadsThatAnEndedReadingHasStoppedGoOn) {
  const pid_t child = ::fork();
  if (child == 0) {
    while (true) ::pause();
  }
  ask(fmt::format("kill -STOP {}; exec sleep 1000", child), {{0, child}}, {.patience = std::chrono::milliseconds(300)});
  int status = 0;
  // Whether it was stopped and continued, in this order, whichever of the two is seen first.
  while (::waitpid(child, &status, WUNTRACED | WCONTINUED) == child && !WIFCONTINUED(status)) {
  }
  EXPECT_TRUE(WIFCONTINUED(status));
  ::kill(child, SIGKILL);
  ::waitpid(child, &status, 0);
}

TEST(StackReader, AStoppedRankStaysStopped) {
  const pid_t child = ::fork();
  if (child == 0) {
    while (true) ::pause();
  }
  int status = 0;
  ::kill(child, SIGSTOP);
  ASSERT_EQ(::waitpid(child, &status, WUNTRACED), child);
  ask("exec sleep 1000", {{0, child}}, {.patience = std::chrono::milliseconds(50)});
  EXPECT_EQ(::waitpid(child, &status, WCONTINUED | WNOHANG), 0);
  ::kill(child, SIGKILL);
  ::waitpid(child, &status, 0);
}

TEST(StackReader, QuestionsWaitForTheirTurn) {
  const Program program("exit 0");
  base::Loop loop;
  std::vector<std::uint64_t> done;
  StackReader reader(loop,
                     [&](const v1::StackAnswer& answer) {
                       done.push_back(answer.id());
                       if (done.size() == 3) loop.stop();
                     },
                     {.program = program.path(), .opens_memories = false});
  loop.post([&] {
    for (std::uint64_t id = 1; id <= 3; ++id) reader.ask(id, {{0, 1}}, false);
  });
  loop.run();
  EXPECT_EQ(done, (std::vector<std::uint64_t>{1, 2, 3}));
}

}  // namespace
}  // namespace muster::agent::stack_reader_test
