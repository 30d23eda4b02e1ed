// What reaches the user when a rank cannot be started, and what a rank finds when it can.
#include "agent/process/spawner.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <iostream>

#include <gtest/gtest.h>

#include "base/file.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::agent::spawner_test {
namespace {

namespace fs = std::filesystem;

// Children that this thread has not reaped. Earlier tests of this process may have left some.
std::string children() {
  const auto listed = base::read_file("/proc/thread-self/children");
  EXPECT_TRUE(listed.ok()) << listed.status();
  return listed.ok() ? *listed : "";
}

std::ptrdiff_t open_descriptors() {
  return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
}

class SpawnerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    // As in the warden, where the rank's stdin is descriptor 0.
    const base::UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    ASSERT_EQ(::dup2(null.get(), 0), 0);
    fs::create_directory(path_ + "/folder");
    auto made = Spawner::create("abcdefg2");
    ASSERT_TRUE(made.ok()) << made.status();
    spawner_.emplace(std::move(*made));
  }

  void write(const std::string& name, const std::string& content, unsigned mode) const {
    fs::permissions(dir_.write(name, content), fs::perms(mode));
  }

  SpawnRequest request(std::vector<std::string> argv) const {
    SpawnRequest one;
    one.argv = std::move(argv);
    one.env = {"PATH=" + path_ + ":/usr/bin:/bin", "MUSTER_JOB_ID=spoofed2", "X=1"};
    one.workdir = path_;
    return one;
  }

  RankStartFailed failure(const SpawnRequest& one) {
    auto result = spawner_->spawn(one, nullptr);
    auto* failed = std::get_if<RankStartFailed>(&result);
    if (failed != nullptr) return *failed;
    ADD_FAILURE() << "it started";
    ::waitpid(std::get<Spawned>(result).child.pid, nullptr, 0);
    return {};
  }

  static std::string read_all(int fd) {
    std::string text;
    char buffer[4096];
    pollfd wanted{fd, POLLIN, 0};
    while (::poll(&wanted, 1, 10'000) > 0) {
      const ssize_t n = ::read(wanted.fd, buffer, sizeof buffer);
      if (n <= 0) break;
      text.append(buffer, static_cast<std::size_t>(n));
    }
    return text;
  }

  // Runs it to its end; its stdout.
  std::string output(const SpawnRequest& one, int* status = nullptr) {
    auto result = spawner_->spawn(one, nullptr);
    auto* spawned = std::get_if<Spawned>(&result);
    if (spawned == nullptr) {
      ADD_FAILURE() << std::get<RankStartFailed>(result).message;
      return {};
    }
    std::string text = read_all(spawned->stdout_fd.get());
    int ended = 0;
    EXPECT_EQ(::waitpid(spawned->child.pid, &ended, 0), spawned->child.pid);
    if (status != nullptr) *status = ended;
    return text;
  }

  testing_support::TempDir dir_;
  const std::string& path_ = dir_.path();
  std::optional<Spawner> spawner_;
};

TEST_F(SpawnerTest, EveryFailureHasItsStepCodeAndSentence) {
  write("plain", "x", 0644);
  write("badscript", "#!/nowhere/sh\n", 0755);
  write("binary", std::string("\1\0\2", 3), 0755);
  struct Row {
    std::vector<std::string> argv;
    std::string step;
    int exit_code;
    std::string message;
  };
  const std::vector<Row> table{
      {{"./missing"}, "exec", 127, "cannot run './missing': no such file in " + path_},
      {{"nosuchprogram"}, "exec", 127, "cannot run 'nosuchprogram': not found in PATH (" + path_ + ":/usr/bin:/bin)"},
      {{""}, "exec", 127, "cannot run '': the command is empty"},
      {{"./plain"}, "exec", 126, "cannot run './plain': it is not executable (mode 0644; chmod +x makes it so)"},
      {{"plain"},
       "exec",
       126,
       "cannot run '" + path_ + "/plain': it is not executable (mode 0644; chmod +x makes it so)"},
      {{"./folder"}, "exec", 126, "cannot run './folder': it is a directory"},
      {{"./badscript"},
       "exec",
       126,
       "cannot run './badscript': its interpreter '/nowhere/sh' (first line of the file) does not exist"},
      {{"./binary"}, "exec", 126, "cannot run './binary': it is neither a program nor a script"},
      {{}, "exec", 125, "the command is empty"},
      {{"true", std::string("a\0b", 3)}, "exec", 125, "an argument or environment value holds a NUL byte"}};
  const std::string before = children();
  for (const Row& row : table) {
    const RankStartFailed failed = failure(request(row.argv));
    EXPECT_EQ(failed.message, row.message);
    EXPECT_EQ(failed.exit_code, row.exit_code) << row.message;
    EXPECT_EQ(failed.step, row.step) << row.message;
    std::cout << "  " << failed.exit_code << "  " << failed.message << "\n";
  }
  EXPECT_EQ(children(), before);  // nothing is left to reap
}

TEST_F(SpawnerTest, WhoWantsItHasASocketToTheAgent) {
  SpawnRequest one = request({"/bin/bash", "-c", "echo asks >&99; read -r line <&99; echo \"$line\""});
  one.wants_pmi = true;
  const std::ptrdiff_t before = open_descriptors();
  for (int round = 0; round < 2; ++round) {
    auto result = spawner_->spawn(one, nullptr);
    auto* spawned = std::get_if<Spawned>(&result);
    ASSERT_NE(spawned, nullptr);
    pollfd wanted{spawned->pmi_fd.get(), POLLIN, 0};
    ASSERT_EQ(::poll(&wanted, 1, 10'000), 1);
    char asked[16] = {};
    EXPECT_EQ(::read(wanted.fd, asked, sizeof asked), 5);
    EXPECT_STREQ(asked, "asks\n");
    ASSERT_EQ(::write(wanted.fd, "answer\n", 7), 7);
    EXPECT_EQ(read_all(spawned->stdout_fd.get()), "answer\n");
    EXPECT_EQ(::read(wanted.fd, asked, sizeof asked), 0) << "nobody else has it";
    EXPECT_EQ(::waitpid(spawned->child.pid, nullptr, 0), spawned->child.pid);
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(SpawnerTest, ItsPlaceMayBeTakenInTheWarden) {
  const base::UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  std::vector<base::UniqueFd> taken;  // so that the pair's second is made at the place itself
  while (taken.empty() || taken.back().get() < kPmiDescriptor - 6) {
    taken.emplace_back(::fcntl(null.get(), F_DUPFD_CLOEXEC, 3));
  }
  SpawnRequest one = request({"/bin/bash", "-c", "test -S /proc/self/fd/99 && echo there"});
  one.wants_pmi = true;
  for (int round = 0; round < 8; ++round) {
    EXPECT_EQ(output(one), "there\n") << round;
    taken.emplace_back(::fcntl(null.get(), F_DUPFD_CLOEXEC, 3));
  }
}

TEST_F(SpawnerTest, TheOtherStepsFailWithTheirSentence) {
  SpawnRequest one = request({"true"});
  one.workdir = path_ + "/gone";
  EXPECT_EQ(failure(one).message, "the working directory " + path_ + "/gone does not exist; name another with --wdir");
  EXPECT_EQ(failure(one).exit_code, 125);

  one = request({"true"});
  one.cpus = {4000};
  EXPECT_EQ(failure(one).step, "affinity");
  one.cpus = {-3};
  EXPECT_EQ(failure(one).message, "CPU -3 is not a CPU number");

  one = request({"true"});
  one.limits = {{RLIMIT_NOFILE, 10, 5}};
  EXPECT_EQ(failure(one).step, "limits");
  EXPECT_EQ(failure(one).message.rfind("cannot set the limit nofile to 10: Invalid argument (this host's hard", 0), 0U);

  one = request({"true", std::string(300u << 10, 'x')});
  EXPECT_EQ(failure(one).exit_code, 126);
  EXPECT_NE(failure(one).message.find("arguments and environment are too long"), std::string::npos);
}

TEST_F(SpawnerTest, LaterCandidatesOfThePathAreTried) {
  write("true", "not executable", 0644);
  int status = -1;
  EXPECT_EQ(output(request({"true"}), &status), "");
  EXPECT_EQ(status, 0);
}

TEST_F(SpawnerTest, TextWithoutAnInterpreterLineGoesToTheShell) {
  write("script", "echo \"$0 $1\"\n", 0755);
  EXPECT_EQ(output(request({"./script", "a b"})), "./script a b\n");
  EXPECT_EQ(output(request({"script", "c"})), path_ + "/script c\n");
}

TEST_F(SpawnerTest, TheRankFindsWhatWasDecided) {
  SpawnRequest one = request({"sh", "-c", "pwd; umask; ulimit -n; echo $MUSTER_JOB_ID $X; taskset -pc $$; echo end"});
  one.umask = 027;
  one.limits = {{RLIMIT_NOFILE, 123, 200}};
  one.cpus = {0};
  const std::string text = output(one);
  EXPECT_EQ(text.rfind(path_ + "\n0027\n123\nabcdefg2 1\n", 0), 0U) << text;
  EXPECT_NE(text.find("affinity list: 0\n"), std::string::npos) << text;
}

TEST_F(SpawnerTest, TheRankLeadsItsGroupInOurSessionWithCleanSignals) {
  ::signal(SIGUSR1, SIG_IGN);
  sigset_t blocked;
  sigset_t before;
  ::sigfillset(&blocked);
  ::sigprocmask(SIG_SETMASK, &blocked, &before);
  const std::string text =
      output(request({"sh", "-c",
                      "grep -E '^Sig(Blk|Ign)' /proc/self/status; readlink /proc/$$/fd/0; "
                      "read pid comm state parent group session rest </proc/$$/stat; "
                      "[ $group = $$ ] && echo leads in $session; cat /proc/self/autogroup 2>/dev/null"}));
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  ::signal(SIGUSR1, SIG_DFL);
  // Empty where the kernel has no autogroups.
  const auto read = base::read_file("/proc/self/autogroup");
  const std::string autogroup = read.ok() ? *read : "";
  EXPECT_EQ(text, fmt::format("SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n/dev/null\nleads in {}\n{}",
                              ::getsid(0), autogroup));
}

TEST_F(SpawnerTest, AThousandSpawnsOfTrue) {
  constexpr int kSpawns = 1000;
  const SpawnRequest one = request({"/bin/true"});
  const auto descriptors = open_descriptors();
  const auto before = std::chrono::steady_clock::now();
  for (int i = 0; i < kSpawns; ++i) {
    auto result = spawner_->spawn(one, nullptr);
    auto* spawned = std::get_if<Spawned>(&result);
    ASSERT_NE(spawned, nullptr);
    int status = -1;
    ASSERT_EQ(::waitpid(spawned->child.pid, &status, 0), spawned->child.pid);
    ASSERT_EQ(status, 0);
  }
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - before;
  std::cout << "  " << took.count() / kSpawns << " ms for each spawn and end of true\n";
  EXPECT_EQ(open_descriptors(), descriptors);
}

TEST_F(SpawnerTest, APipeAsStdinReachesTheRankAndEndsWithItsWriteEnd) {
  SpawnRequest one = request({"cat"});
  one.stdin_of = StdinOf::kPipe;
  auto result = spawner_->spawn(one, nullptr);
  auto* spawned = std::get_if<Spawned>(&result);
  ASSERT_NE(spawned, nullptr);
  ASSERT_EQ(::write(spawned->stdin_fd.get(), "to the rank", 11), 11);
  EXPECT_NE(::fcntl(spawned->stdin_fd.get(), F_GETFL) & O_NONBLOCK, 0);
  spawned->stdin_fd.reset();
  EXPECT_EQ(read_all(spawned->stdout_fd.get()), "to the rank");
  EXPECT_EQ(::waitpid(spawned->child.pid, nullptr, 0), spawned->child.pid);
}

TEST_F(SpawnerTest, ATerminalIsAllThreeAndControlsTheSession) {
  SpawnRequest one = request({"sh", "-c", "tty -s <&1 && tty -s <&2 && stty size && echo text >/dev/tty && exec cat"});
  one.stdin_of = StdinOf::kTerminal;
  one.rows = 33;
  one.columns = 101;
  const auto before = open_descriptors();
  {
    auto result = spawner_->spawn(one, nullptr);
    auto* spawned = std::get_if<Spawned>(&result);
    ASSERT_NE(spawned, nullptr);
    EXPECT_FALSE(spawned->stderr_fd.valid());
    ASSERT_EQ(::write(spawned->stdin_fd.get(), "typed\n\4", 7), 7);
    std::string text = read_all(spawned->stdout_fd.get());
    EXPECT_NE(text.find("33 101\r\n"), std::string::npos) << text;
    EXPECT_NE(text.find("text\r\n"), std::string::npos) << text;
    text.erase(0, text.find("typed") + 5);
    EXPECT_NE(text.find("typed\r\n"), std::string::npos) << "once by echo, once by cat";
    int status = -1;
    EXPECT_EQ(::waitpid(spawned->child.pid, &status, 0), spawned->child.pid);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(open_descriptors(), before);
}

}  // namespace
}  // namespace muster::agent::spawner_test
