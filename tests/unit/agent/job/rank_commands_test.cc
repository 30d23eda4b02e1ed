// Commands with a warden that the test plays. The real one is in tests/daemon/test_exec.py.
#include "agent/job/rank_commands.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include <gtest/gtest.h>

#include "tests/unit/agent/job/fake_warden.h"

namespace muster::agent::rank_commands_test {
namespace {

using namespace std::chrono_literals;
using namespace testing;
using Body = v1::AgentMessage;

class RankCommandsTest : public ::testing::Test {
 protected:
  RankCommandsTest() {
    v1::Launch launch;
    launch.add_ranks()->set_rank(3);
    SpawnRequest rank;
    rank.rank = 3;
    rank.argv = {"train"};
    rank.env = {"A=1", "TERM=dumb"};
    rank.workdir = "/work";
    rank.cpus = {4, 5};
    rank.umask = 077;
    rank.wants_pmi = true;
    commands_.remember(launch, {}, {rank});
  }

  void order(std::uint64_t id, const std::function<void(v1::ExecOrder&)>& adjust = {}) {
    v1::ExecOrder order;
    order.set_id(id);
    order.set_rank(3);
    order.add_command("ps");
    if (adjust) adjust(order);
    commands_.order(order);
  }
  // The warden has started the newest command. The test keeps the other ends of its pipes.
  void start() {
    auto in = base::make_pipe();
    auto out = base::make_pipe();
    auto err = base::make_pipe();
    ASSERT_TRUE(in.ok() && out.ok() && err.ok());
    RankStarted event = started(spawned_.back().rank, 4711);
    event.stdin_fd = std::move(in->second);
    event.stdout_fd = std::move(out->first);
    event.stderr_fd = std::move(err->first);
    for (const base::UniqueFd* fd : {&event.stdin_fd, &event.stdout_fd, &event.stderr_fd}) {
      ASSERT_TRUE(base::set_nonblocking(fd->get(), true).ok());
    }
    stdin_ = std::move(in->first);
    stdout_ = std::move(out->second);
    stderr_ = std::move(err->second);
    commands_.on_event(event);
  }
  void exit(int wait_status) {
    stdout_.reset();
    stderr_.reset();
    RankExited event = exited(spawned_.back().rank, 4711, wait_status);
    commands_.on_event(event);
  }
  void end_by_control(std::uint64_t id) {
    v1::ExecControl control;
    control.set_id(id);
    control.set_end(true);
    commands_.control(control);
  }
  v1::ExecEnded ended() const { return sent_.last(Body::kExecEnded).exec_ended(); }
  bool has_sent(int signo) const {
    return std::ranges::any_of(signals_, [signo](const auto& each) { return each.second == signo; });
  }

  base::Loop loop_;
  const base::Environment login_;
  SentMessages sent_;
  std::vector<SpawnRequest> spawned_;
  std::vector<std::pair<int, int>> signals_;
  base::UniqueFd stdin_;
  base::UniqueFd stdout_;
  base::UniqueFd stderr_;
  RankCommands commands_{loop_,
                         login_,
                         {.send = [this](v1::AgentMessage message) { sent_.add(std::move(message)); },
                          .spawn =
                              [this](const SpawnRequest& request) {
                                spawned_.push_back(request);
                                return base::ok_status();
                              },
                          .signal =
                              [this](int number, int signo) {
                                signals_.emplace_back(number, signo);
                                return base::ok_status();
                              },
                          .shown = [](int rank) { return rank; }}};
};

TEST_F(RankCommandsTest, StartsAsTheRankWasStarted) {
  order(7);
  ASSERT_EQ(spawned_.size(), 1U);
  const SpawnRequest& request = spawned_.front();
  EXPECT_TRUE(is_command(request.rank));
  EXPECT_EQ(request.argv, std::vector<std::string>{"ps"});
  EXPECT_EQ(request.env, (std::vector<std::string>{"A=1", "TERM=dumb"}));
  EXPECT_EQ(request.workdir, "/work");
  EXPECT_EQ(request.cpus, (std::vector<int>{4, 5}));
  EXPECT_EQ(request.umask, 077U);
  EXPECT_FALSE(request.wants_pmi);
  EXPECT_EQ(request.stdin_of, StdinOf::kPipe);
  start();
  EXPECT_EQ(sent_.last(Body::kExecStarted).exec_started().id(), 7U);
  EXPECT_EQ(sent_.last(Body::kExecStarted).exec_started().pid(), 4711);
}

TEST_F(RankCommandsTest, GetsATerminalWithItsSizeAndKind) {
  order(7, [](v1::ExecOrder& order) {
    order.set_terminal(true);
    order.set_term("xterm");
    order.mutable_window_size()->set_rows(50);
    order.mutable_window_size()->set_columns(132);
  });
  const SpawnRequest& request = spawned_.front();
  EXPECT_EQ(request.stdin_of, StdinOf::kTerminal);
  EXPECT_EQ(request.rows, 50);
  EXPECT_EQ(request.columns, 132);
  EXPECT_EQ(request.env, (std::vector<std::string>{"A=1", "TERM=xterm"}));
}

TEST_F(RankCommandsTest, AShellIsThatOfTheUser) {
  order(7, [](v1::ExecOrder& order) {
    order.clear_command();
    order.set_shell(true);
  });
  ASSERT_EQ(spawned_.front().argv.size(), 1U);
  EXPECT_TRUE(spawned_.front().argv.front().starts_with('/'));
}

TEST_F(RankCommandsTest, PassesInputAndOutputOn) {
  order(7);
  v1::ExecInput early;
  early.set_id(7);
  early.set_data("ea");
  commands_.input(early);
  start();
  v1::ExecInput late;
  late.set_id(7);
  late.set_data("rly");
  late.set_eof(true);
  commands_.input(late);
  char bytes[16];
  EXPECT_EQ(::read(stdin_.get(), bytes, sizeof bytes), 5);
  EXPECT_EQ(std::string(bytes, 5), "early");
  EXPECT_EQ(::read(stdin_.get(), bytes, sizeof bytes), 0) << "the end of the input";
  EXPECT_EQ(sent_.last(Body::kExecInputTaken).exec_input_taken().bytes(), 3U);
  ASSERT_EQ(::write(stderr_.get(), "bad", 3), 3);
  ASSERT_TRUE(run_until(loop_, [this] { return sent_.count(Body::kExecOutput) == 1; }));
  EXPECT_EQ(sent_.last(Body::kExecOutput).exec_output().data(), "bad");
  EXPECT_TRUE(sent_.last(Body::kExecOutput).exec_output().is_stderr());
}

TEST_F(RankCommandsTest, ReportsTheEndAfterTheLastOutput) {
  order(7);
  start();
  ASSERT_EQ(::write(stdout_.get(), "last", 4), 4);
  exit(3 << 8);
  EXPECT_EQ(sent_.last(Body::kExecOutput).exec_output().data(), "last");
  EXPECT_EQ(ended().id(), 7U);
  EXPECT_EQ(ended().wait_status(), 3 << 8);
  EXPECT_FALSE(ended().not_started());
  EXPECT_EQ(ended().message(), "");
  EXPECT_TRUE(run_until(loop_, [this] { return commands_.size() == 0; }));
}

TEST_F(RankCommandsTest, SaysWhyACommandDidNotStart) {
  order(7);
  RankStartFailed failed;
  failed.rank = spawned_.back().rank;
  failed.exit_code = 127;
  failed.message = "cannot run 'ps': no such file";
  commands_.on_event(failed);
  EXPECT_TRUE(ended().not_started());
  EXPECT_EQ(ended().exit_code(), 127);
  EXPECT_EQ(ended().message(), "cannot run 'ps': no such file");
  EXPECT_EQ(commands_.size(), 0U);
}

TEST_F(RankCommandsTest, RefusesRanksThatDoNotRunHere) {
  order(7, [](v1::ExecOrder& order) { order.set_rank(4); });
  EXPECT_TRUE(spawned_.empty());
  EXPECT_TRUE(ended().not_started());
  EXPECT_NE(ended().message().find("rank 4 does not run"), std::string::npos);
  commands_.rank_over(3, "exit code 0");
  order(8);
  EXPECT_TRUE(spawned_.empty());
  EXPECT_NE(ended().message().find("rank 3 does not run"), std::string::npos);
}

TEST_F(RankCommandsTest, RefusesTooManyCommands) {
  for (std::uint64_t id = 0; id < RankCommands::kMostCommands; ++id) order(id);
  EXPECT_EQ(sent_.count(Body::kExecEnded), 0U);
  order(99);
  EXPECT_EQ(spawned_.size(), RankCommands::kMostCommands);
  EXPECT_EQ(ended().id(), 99U);
  EXPECT_EQ(ended().exit_code(), 125);
}

TEST_F(RankCommandsTest, EndsWithItsRankAndSaysSo) {
  order(7);
  start();
  commands_.rank_over(3, "exit code 0");
  EXPECT_TRUE(has_sent(SIGHUP));
  EXPECT_TRUE(has_sent(SIGTERM));
  EXPECT_FALSE(has_sent(SIGKILL));
  exit(SIGTERM);
  EXPECT_EQ(ended().wait_status(), SIGTERM);
  EXPECT_EQ(ended().message(), "rank 3 ended (exit code 0) while the command ran");
}

TEST_F(RankCommandsTest, IsKilledIfItDoesNotEnd) {
  order(7);
  start();
  commands_.rank_over(3, "exit code 0");
  EXPECT_TRUE(run_until(loop_, [this] { return has_sent(SIGKILL); }));
}

TEST_F(RankCommandsTest, EndsOnceItHasStartedIfItsRankEndsBefore) {
  order(7);
  commands_.rank_over(3, "exit code 0");
  EXPECT_TRUE(signals_.empty()) << "the warden has not started it";
  start();
  EXPECT_TRUE(has_sent(SIGTERM));
  exit(SIGTERM);
  EXPECT_EQ(ended().message(), "rank 3 ended (exit code 0) while the command ran");
}

TEST_F(RankCommandsTest, EndsWithoutAWordIfItsCallerLeaves) {
  order(7);
  start();
  end_by_control(7);
  EXPECT_TRUE(has_sent(SIGTERM));
  ASSERT_EQ(::write(stdout_.get(), "late", 4), 4);
  exit(SIGTERM);
  EXPECT_TRUE(run_until(loop_, [this] { return commands_.size() == 0; }));
  EXPECT_EQ(sent_.count(Body::kExecEnded), 0U);
  EXPECT_EQ(sent_.count(Body::kExecOutput), 0U);
}

TEST_F(RankCommandsTest, EndsWithItsLauncher) {
  order(7);
  start();
  commands_.launcher_is_new();
  EXPECT_TRUE(has_sent(SIGTERM));
  exit(SIGTERM);
  EXPECT_EQ(sent_.count(Body::kExecEnded), 0U) << "the new launcher may have given the number to another command";
}

TEST_F(RankCommandsTest, SurvivesAShortCutOnly) {
  order(7);
  start();
  commands_.stream_is_cut();
  commands_.stream_is_up();
  EXPECT_FALSE(has_sent(SIGTERM));
  // Each failed attempt to connect is reported as another cut.
  EXPECT_TRUE(run_until(loop_, [this] {
    commands_.stream_is_cut();
    return has_sent(SIGTERM);
  }));
  exit(SIGTERM);
  EXPECT_NE(ended().message().find("no connection to the launcher"), std::string::npos);
}

TEST_F(RankCommandsTest, IsLostWithTheWarden) {
  order(7);
  start();
  commands_.lose_all();
  EXPECT_TRUE(run_until(loop_, [this] { return sent_.count(Body::kExecEnded) == 1; }));
  EXPECT_EQ(ended().wait_status(), SIGKILL);
  EXPECT_NE(ended().message().find("warden"), std::string::npos);
}

TEST_F(RankCommandsTest, PassesSignalsOn) {
  order(7);
  start();
  v1::ExecControl control;
  control.set_id(7);
  control.set_signal(SIGINT);
  commands_.control(control);
  ASSERT_EQ(signals_.size(), 1U);
  EXPECT_EQ(signals_.front(), std::pair(spawned_.back().rank, SIGINT));
  control.set_signal(9999);
  commands_.control(control);
  control.set_signal(-3);
  commands_.control(control);
  EXPECT_EQ(signals_.size(), 1U);
}

TEST_F(RankCommandsTest, PassesSignalsOnThatComeBeforeTheStart) {
  order(7);
  v1::ExecControl control;
  control.set_id(7);
  for (const int signo : {SIGINT, SIGUSR1, SIGINT}) {
    control.set_signal(signo);
    commands_.control(control);
  }
  EXPECT_TRUE(signals_.empty());
  start();
  const int number = spawned_.back().rank;
  EXPECT_EQ(signals_, (std::vector<std::pair<int, int>>{{number, SIGINT}, {number, SIGUSR1}}));
}

TEST_F(RankCommandsTest, AppliesTheLastSizeThatComesBeforeTheStart) {
  order(7, [](v1::ExecOrder& order) { order.set_terminal(true); });
  v1::ExecControl control;
  control.set_id(7);
  for (const int rows : {20, 21}) {
    control.mutable_window_size()->set_rows(rows);
    control.mutable_window_size()->set_columns(60);
    commands_.control(control);
  }
  const base::UniqueFd terminal(::open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK));
  ASSERT_TRUE(terminal.valid());
  RankStarted event = started(spawned_.back().rank, 4711);
  event.stdin_fd.reset(::dup(terminal.get()));
  event.stdout_fd.reset(::dup(terminal.get()));
  commands_.on_event(event);
  winsize size{};
  ASSERT_EQ(::ioctl(terminal.get(), TIOCGWINSZ, &size), 0);
  EXPECT_EQ(size.ws_row, 21);
  EXPECT_EQ(size.ws_col, 60);
}

TEST_F(RankCommandsTest, RefusesOrdersOnceTheJobIsStopped) {
  commands_.stopping();
  order(7);
  EXPECT_TRUE(spawned_.empty());
  EXPECT_TRUE(ended().not_started());
}

TEST_F(RankCommandsTest, IgnoresMessagesAboutUnknownCommands) {
  end_by_control(5);
  v1::ExecInput input;
  input.set_id(5);
  input.set_data("x");
  commands_.input(input);
  RankExited event = exited(kFirstCommand + 100, 1, 0);
  commands_.on_event(event);
  EXPECT_EQ(sent_.count(Body::kExecEnded), 0U);
}

}  // namespace
}  // namespace muster::agent::rank_commands_test
