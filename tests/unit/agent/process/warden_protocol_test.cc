#include "agent/process/warden_protocol.h"

#include <gtest/gtest.h>

namespace muster::agent::warden_protocol_test {
namespace {

template <typename T>
T through_command(const T& command) {
  const auto decoded = decode_command(encode(WardenCommand(command)));
  EXPECT_TRUE(decoded.ok()) << decoded.status();
  return std::get<T>(*decoded);
}

template <typename T>
T through_event(T event) {
  auto decoded = decode_event(encode(WardenEvent(std::move(event))));
  EXPECT_TRUE(decoded.ok()) << decoded.status();
  return std::get<T>(std::move(*decoded));
}

TEST(WardenProtocolTest, CommandsComeThroughUnchanged) {
  SpawnRequest request{3,  {"a", ""}, {"X=1\n", "Y="}, "/w", {0, 7}, 027, {{RLIMIT_NOFILE, 5, 6}}, StdinOf::kTerminal,
                       40, 132};
  const SpawnRequest spawn = through_command(request);
  EXPECT_EQ(spawn.rank, 3);
  EXPECT_EQ(spawn.argv, request.argv);
  EXPECT_EQ(spawn.env, request.env);
  EXPECT_EQ(spawn.workdir, "/w");
  EXPECT_EQ(spawn.cpus, request.cpus);
  EXPECT_EQ(spawn.umask, 027U);
  EXPECT_EQ(spawn.limits, request.limits);
  EXPECT_EQ(spawn.stdin_of, StdinOf::kTerminal);
  EXPECT_EQ(spawn.rows, 40);
  EXPECT_EQ(spawn.columns, 132);
  EXPECT_EQ(through_command(SignalCommand{-1, 15}).signo, 15);
  EXPECT_EQ(through_command(StopCommand{std::chrono::milliseconds(5000)}).grace.count(), 5000);
  EXPECT_EQ(through_command(FinishCommand{std::chrono::milliseconds(7)}).patience.count(), 7);
  EXPECT_TRUE(through_command(PauseCommand{true}).on);
  through_command(LeaveCommand{});
}

TEST(WardenProtocolTest, EventsComeThroughUnchanged) {
  const base::MonotonicTime at(std::chrono::nanoseconds(123456789));
  auto pipe = base::make_pipe();
  ASSERT_TRUE(pipe.ok());
  const RankStarted started =
      through_event(RankStarted{1, 2, 3, {}, std::move(pipe->first), std::move(pipe->second), at});
  EXPECT_EQ(started.pid_inside, 3);
  EXPECT_TRUE(started.stdout_fd.valid() && started.stderr_fd.valid() && !started.stdin_fd.valid());
  auto terminal = base::make_pipe();
  ASSERT_TRUE(terminal.ok());
  const RankStarted with_terminal =
      through_event(RankStarted{1, 2, 3, std::move(terminal->first), std::move(terminal->second), {}, at});
  EXPECT_TRUE(with_terminal.stdin_fd.valid() && with_terminal.stdout_fd.valid() && !with_terminal.stderr_fd.valid());
  EXPECT_EQ(started.at, at);
  auto pmi = base::make_pipe();
  ASSERT_TRUE(pmi.ok());
  const RankStarted with_pmi = through_event(RankStarted{1, 2, 3, {}, {}, {}, at, std::move(pmi->first)});
  EXPECT_TRUE(with_pmi.pmi_fd.valid() && !with_pmi.stdout_fd.valid());
  EXPECT_FALSE(started.pmi_fd.valid());
  const auto failed = through_event(RankStartFailed{1, "exec", 2, "why", 127});
  EXPECT_EQ(failed.message, "why");
  EXPECT_EQ(failed.exit_code, 127);
  const auto exited = through_event(RankExited{1, 2, 3, 0x900, true, false, at});
  EXPECT_EQ(exited.wait_status, 0x900);
  EXPECT_TRUE(exited.signalled_by_us);
  EXPECT_FALSE(exited.oom_killed);
  EXPECT_TRUE(through_event(RankExited{1, 2, 3, 9, false, false, at, true}).oom_suspected);
  const auto with_facts = through_event(RankExited{
      .rank = 1,
      .facts = {.peak_kib = 5, .free_kib = 6, .program = "/p", .workdir = "/w", .core_limit = 7, .kernel_line = "k"}});
  EXPECT_EQ(with_facts.facts.peak_kib, 5U);
  EXPECT_EQ(with_facts.facts.free_kib, 6U);
  EXPECT_EQ(with_facts.facts.program + with_facts.facts.workdir + with_facts.facts.kernel_line, "/p/wk");
  EXPECT_EQ(with_facts.facts.core_limit, 7U);
  const auto empty = through_event(JobEmpty{{{5, "sh", "cgroup"}}, {{6, "dd", 'D', "io_schedule"}}, 3});
  EXPECT_EQ(empty.oom_others, 3U);
  ASSERT_EQ(empty.killed.size(), 1U);
  EXPECT_EQ(empty.killed[0].why, "cgroup");
  ASSERT_EQ(empty.stuck.size(), 1U);
  EXPECT_EQ(empty.stuck[0].wchan, "io_schedule");
  EXPECT_EQ(through_event(LeaseExpired{at}).at, at);
}

TEST(WardenProtocolTest, EveryCutMessageIsRefused) {
  const std::string whole = encode(WardenCommand(SpawnRequest{3, {"a"}, {"X=1"}, "/w", {1}, 022, {{1, 2, 3}}}));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(decode_command(whole.substr(0, size)).ok()) << size;
  }
  EXPECT_FALSE(decode_command(whole + "x").ok());
  EXPECT_FALSE(decode_event({"", {}}).ok());
  auto pipe = base::make_pipe();
  ASSERT_TRUE(pipe.ok());
  SocketMessage without_fds =
      encode(WardenEvent(RankStarted{1, 2, 3, {}, std::move(pipe->first), std::move(pipe->second), {}}));
  without_fds.fds.clear();
  EXPECT_FALSE(decode_event(std::move(without_fds)).ok());
}

TEST(WardenProtocolTest, ReadyComesThrough) {
  const auto ready = decode_ready(encode(WardenReady{true, "e", 7, {true, false, "n"}, "/cg"}));
  ASSERT_TRUE(ready.ok());
  EXPECT_TRUE(ready->is_ok);
  EXPECT_EQ(ready->pid, 7);
  EXPECT_EQ(ready->containment.name(), "cgroup");
  EXPECT_EQ(ready->cgroup_path, "/cg");
  EXPECT_FALSE(decode_ready("").ok());
}

}  // namespace
}  // namespace muster::agent::warden_protocol_test
