// A warm agent, as a process, with a fake launcher: jobs side by side, and their ends.
#include "agent/job/warm_jobs.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "agent/proc/proc_table.h"
#include "base/file.h"
#include "tests/unit/agent/job/debugger.h"
#include "tests/unit/agent/job/warm_harness.h"
#include "tests/unit/agent/process/agent_harness.h"

namespace muster::agent::warm_jobs_test {
namespace {

using namespace std::chrono_literals;
using namespace testing;
using testing::launch;
using Body = v1::AgentMessage;

bool is_there(const std::string& path) {
  return ::access(path.c_str(), F_OK) == 0;
}

class WarmJobsTest : public testing::WarmAgentFixture {
 protected:
  void start(const std::function<void(v1::AgentJoin&)>& adjust = {}) {
    agent_ = std::make_unique<WarmAgent>(state_, ground_.session_root(), adjust);
    ASSERT_EQ(agent_->link_line(), "MUSTER-LINK dial");
    const v1::Hello hello = launcher_->next_hello();
    ASSERT_EQ(hello.job_id(), testing::kStateName);
    EXPECT_EQ(hello.resume_from(), 0U);
    EXPECT_EQ(hello.held_jobs_size(), 0);
  }

  std::string open(const std::string& job) {
    launcher_->send(open_job(job, state_));
    const auto opened = launcher_->next_of(job, Body::kJobOpened).job_opened();
    EXPECT_EQ(opened.error(), "");
    EXPECT_NE(opened.containment(), "");
    EXPECT_TRUE(is_there(opened.session_dir())) << opened.session_dir();
    return opened.session_dir();
  }
};

TEST_F(WarmJobsTest, AJobFromOpenToClosed) {
  start();
  const std::string directory = open(job_);
  launcher_->send(prepare(job_));
  EXPECT_EQ(launcher_->next_of(job_, Body::kPrepared).prepared().error(), "");
  launcher_->send(launch(job_, {{"true"}, {"sh", "-c", "exit 7"}}));
  std::map<int, int> statuses;
  bool has_launched = false;
  v1::HostEmpty empty;
  for (const v1::AgentMessage& message : launcher_->all_up_to(job_, Body::kHostEmpty)) {
    has_launched = has_launched || message.has_launched();
    EXPECT_FALSE(message.has_rank_start_failed()) << message.rank_start_failed().message();
    if (message.has_rank_exited()) statuses[message.rank_exited().rank()] = message.rank_exited().wait_status();
    if (message.has_host_empty()) empty = message.host_empty();
  }
  EXPECT_TRUE(has_launched);
  EXPECT_EQ(statuses, (std::map<int, int>{{0, 0}, {1, 7 << 8}}));
  EXPECT_EQ(empty.failure(), "");
  EXPECT_EQ(empty.killed_size() + empty.stuck_size(), 0);
  EXPECT_TRUE(empty.no_output());
  launcher_->send(leave(job_));
  EXPECT_EQ(launcher_->next_of(job_, Body::kJobClosed).job_id(), job_);
  EXPECT_FALSE(is_there(directory));
  EXPECT_TRUE(agent_->runs());
  EXPECT_EQ(child_named(agent_->pid(), "muster-warden"), 0);

  // The same id later means a new job.
  open(job_);
  launcher_->send(leave(job_));
  EXPECT_EQ(launcher_->next_of(job_, Body::kJobClosed).job_id(), job_);
}

// If a launcher was killed, the next one does not know whether --signal has been sent.
TEST_F(WarmJobsTest, ASignalThatIsMeantOnceIsSentOnce) {
  start();
  const std::string directory = open(job_);
  const std::string file = directory + "/signals";
  const auto content = [&] {
    const auto read = base::read_file(file);
    return read.ok() ? *read : std::string();
  };
  const auto send = [&](int signo, bool is_once) {
    v1::LauncherMessage message;
    message.set_job_id(job_);
    message.mutable_signal_ranks()->set_signal(signo);
    message.mutable_signal_ranks()->set_once(is_once);
    launcher_->send(message);
  };
  launcher_->send(prepare(job_));
  launcher_->send(launch(job_, {{"sh", "-c",
                                 "trap 'printf 1 >> \"$0\"' USR1; trap 'printf 2 >> \"$0\"' USR2; trap 'exit 9' HUP; "
                                 "printf r >> \"$0\"; while :; do sleep 0.02; done",
                                 file}}));
  ASSERT_TRUE(eventually(kPatience, [&] { return content() == "r"; }));
  send(SIGUSR1, true);
  ASSERT_TRUE(eventually(kPatience, [&] { return content() == "r1"; }));
  send(SIGUSR1, true);
  send(SIGUSR2, false);
  ASSERT_TRUE(eventually(kPatience, [&] { return content().ends_with('2'); }));
  send(SIGHUP, false);
  EXPECT_EQ(launcher_->next_of(job_, Body::kRankExited).rank_exited().wait_status(), 9 << 8);
  EXPECT_EQ(content(), "r12");
}

v1::LauncherMessage evidence_question(const std::string& job, std::uint64_t id, std::int64_t apart_ms) {
  v1::LauncherMessage message;
  message.set_job_id(job);
  message.mutable_evidence_question()->set_id(id);
  message.mutable_evidence_question()->set_apart_ms(apart_ms);
  return message;
}

TEST_F(WarmJobsTest, AnswersWhatRanksDo) {
  start();
  const std::string directory = open(job_);
  launcher_->send(prepare(job_));
  launcher_->send(evidence_question(job_, 1, 0));
  const auto early = launcher_->next_of(job_, Body::kEvidenceAnswer).evidence_answer();
  EXPECT_EQ(early.id(), 1U);
  EXPECT_EQ(early.problem(), "no rank runs on this host");
  const std::string script =
      "import sys, time\nprint('epoch 3', flush=True)\nopen(sys.argv[1], 'w').close(); time.sleep(1000)";
  launcher_->send(launch(job_, {{"sh", "-c", "/usr/bin/python3 -c \"$0\" \"$1\"; exit $?", script, directory + "/up"},
                                {"sleep", "1000"}}));
  ASSERT_TRUE(eventually(kPatience, [&] { return is_there(directory + "/up"); }));
  launcher_->send(evidence_question(job_, 2, 300));
  launcher_->send(evidence_question(job_, 3, 300));
  for (const std::uint64_t id : {2U, 3U}) {
    const auto answer = launcher_->next_of(job_, Body::kEvidenceAnswer).evidence_answer();
    EXPECT_EQ(answer.id(), id);
    EXPECT_EQ(answer.problem(), "");
    ASSERT_EQ(answer.ranks_size(), 2);
    const v1::RankEvidence& python = answer.ranks(0);
    EXPECT_EQ(python.last_line(), "epoch 3");
    EXPECT_TRUE(python.has_silent_ms());
    ASSERT_EQ(python.python_size(), 1) << python.problem();
    EXPECT_EQ(python.python(0).line(), 3);
    EXPECT_FALSE(python.moving());
    EXPECT_GE(python.looked_ms(), 300);
    const v1::RankEvidence& native = answer.ranks(1);
    EXPECT_EQ(native.rank(), 1);
    EXPECT_EQ(native.state(), "S");
    EXPECT_FALSE(native.has_silent_ms());
    EXPECT_FALSE(native.fully_stopped());
  }
  launcher_->send(stop(job_));
  EXPECT_EQ(launcher_->next_of(job_, Body::kHostEmpty).job_id(), job_);
}

TEST_F(WarmJobsTest, AnswersIfTheJobEndsDuringTheLooks) {
  start();
  open(job_);
  launcher_->send(prepare(job_));
  launcher_->send(launch(job_, {{"sleep", "1000"}}));
  launcher_->next_of(job_, Body::kLaunched);
  launcher_->send(evidence_question(job_, 1, 10'000));
  launcher_->send(evidence_question(job_, 2, 10'000));
  launcher_->send(stop(job_));
  for (const std::uint64_t id : {1U, 2U}) {
    const auto answer = launcher_->next_of(job_, Body::kEvidenceAnswer).evidence_answer();
    EXPECT_EQ(answer.id(), id);
    EXPECT_EQ(answer.ranks_size(), 0);
    EXPECT_EQ(answer.problem(), "all ranks of this host have ended");
  }
  EXPECT_EQ(launcher_->next_of(job_, Body::kHostEmpty).job_id(), job_);
}

TEST_F(WarmJobsTest, OrdersMayComeWithoutWaitingForAnswers) {
  start();
  launcher_->send(open_job(job_, state_));
  launcher_->send(prepare(job_));
  launcher_->send(launch(job_, {{"true"}}));
  const auto all = launcher_->all_up_to(job_, Body::kHostEmpty);
  ASSERT_GE(all.size(), 5U);
  EXPECT_TRUE(all[0].has_job_opened());
  EXPECT_TRUE(all[1].has_prepared());
  launcher_->send(leave(job_));
  launcher_->send(open_job(job_, state_, false, 1min, 1));
  launcher_->send(leave(job_));
  EXPECT_TRUE(launcher_->next_of(job_, Body::kJobClosed).has_job_closed());
  const auto opened = launcher_->next_of(job_, Body::kJobOpened).job_opened();
  EXPECT_EQ(opened.error(), "");
  EXPECT_EQ(opened.attempt(), 1);
  EXPECT_TRUE(launcher_->next_of(job_, Body::kJobClosed).has_job_closed());
}

TEST_F(WarmJobsTest, JobsSideBySideDoNotTouchEachOther) {
  start();
  const std::string other = new_job();
  const std::string sleeper = ground_.victim("sleeper");
  const std::string directory = open(job_);
  open(other);
  launcher_->send(launch(job_, {{sleeper, job_}}));
  EXPECT_TRUE(launcher_->next_of(job_, Body::kLaunched).has_launched());
  launcher_->send(launch(other, {{"/no/such/program"}, {"sh", "-c", "exit 3"}}));
  int failed_with = 0;
  for (const v1::AgentMessage& message : launcher_->all_up_to(other, Body::kHostEmpty)) {
    if (message.has_rank_start_failed()) failed_with = message.rank_start_failed().exit_code();
  }
  EXPECT_EQ(failed_with, 127);
  launcher_->send(leave(other));
  EXPECT_TRUE(launcher_->next_of(other, Body::kJobClosed).has_job_closed());
  EXPECT_EQ(processes_with(job_).size(), 1U);
  EXPECT_TRUE(is_there(directory));

  // Answers carry the id of their question.
  v1::LauncherMessage ping;
  ping.set_job_id(job_);
  ping.mutable_ping()->set_launcher_ns(5);
  launcher_->send_unnumbered(ping);
  EXPECT_EQ(launcher_->next_of(job_, Body::kPong).pong().launcher_ns(), 5);

  // If the launcher leaves a job that runs, the agent ends it.
  launcher_->send(leave(job_));
  EXPECT_TRUE(launcher_->next_of(job_, Body::kJobClosed).has_job_closed());
  EXPECT_EQ(processes_with(job_).size(), 0U);
  EXPECT_FALSE(is_there(directory));
}

TEST_F(WarmJobsTest, AKilledWardenEndsItsJobAlone) {
  start();
  const std::string other = new_job();
  const std::string sleeper = ground_.victim("sleeper");
  open(job_);
  pid_t warden = 0;  // our agent's child once the maker has ended
  ASSERT_TRUE(eventually(5s, [&] { return (warden = child_named(agent_->pid(), "muster-warden")) > 0; }));
  open(other);
  for (const std::string& job : {job_, other}) {
    launcher_->send(launch(job, {{sleeper, job}}));
    EXPECT_TRUE(launcher_->next_of(job, Body::kLaunched).has_launched());
  }
  ASSERT_EQ(::kill(warden, SIGKILL), 0);
  const auto empty = launcher_->next_of(job_, Body::kHostEmpty).host_empty();
  EXPECT_NE(empty.failure().find("the warden"), std::string::npos) << empty.failure();
  EXPECT_EQ(left_after(job_, gone_within()), 0U);
  EXPECT_EQ(processes_with(other).size(), 1U);
  launcher_->send(leave(job_));
  EXPECT_TRUE(launcher_->next_of(job_, Body::kJobClosed).has_job_closed());
  launcher_->send(stop(other));
  EXPECT_EQ(launcher_->next_of(other, Body::kHostEmpty).host_empty().failure(), "");
  launcher_->send(leave(other));
  EXPECT_TRUE(launcher_->next_of(other, Body::kJobClosed).has_job_closed());
}

TEST_F(WarmJobsTest, StoppedWardenIsContinuedWithoutBeingAsked) {
  start();
  open(job_);
  pid_t warden = 0;
  ASSERT_TRUE(eventually(5s, [&] { return (warden = child_named(agent_->pid(), "muster-warden")) > 0; }));
  const std::string fifo = ground_.path() + "/go";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  launcher_->send(launch(job_, {{"sh", "-c", "read x < " + fifo + "; exit 4"}}));
  EXPECT_TRUE(launcher_->next_of(job_, Body::kLaunched).has_launched());
  ASSERT_EQ(::kill(warden, SIGSTOP), 0);
  const base::UniqueFd go(::open(fifo.c_str(), O_WRONLY));
  ASSERT_EQ(::write(go.get(), "\n", 1), 1);
  EXPECT_EQ(launcher_->next_of(job_, Body::kRankExited).rank_exited().wait_status(), 4 << 8);
  EXPECT_EQ(launcher_->next_of(job_, Body::kHostEmpty).host_empty().failure(), "");
  launcher_->send(leave(job_));
  EXPECT_TRUE(launcher_->next_of(job_, Body::kJobClosed).has_job_closed());
}

// A debugger traces the warden, so no SIGCONT continues it, and only SIGKILL ends it.
TEST_F(WarmJobsTest, HungWardenIsKilledWhenItsJobIsStopped) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may trace a warden";
  start();
  open(job_);
  pid_t warden = 0;
  ASSERT_TRUE(eventually(5s, [&] { return (warden = child_named(agent_->pid(), "muster-warden")) > 0; }));
  launcher_->send(launch(job_, {{ground_.victim("sleeper"), job_}}));
  EXPECT_TRUE(launcher_->next_of(job_, Body::kLaunched).has_launched());
  const Debugger debugger(warden);
  ASSERT_TRUE(debugger.is_held());
  launcher_->send(stop(job_));
  const auto empty = launcher_->next_of(job_, Body::kHostEmpty).host_empty();
  EXPECT_NE(empty.failure().find("did not run and was killed"), std::string::npos) << empty.failure();
  EXPECT_EQ(left_after(job_, gone_within()), 0U);
  launcher_->send(leave(job_));
  EXPECT_TRUE(launcher_->next_of(job_, Body::kJobClosed).has_job_closed());
}

TEST_F(WarmJobsTest, WhatCannotBeOpenedIsAnswered) {
  start();
  const auto error_of = [this](v1::LauncherMessage message) {
    const std::string job = message.job_id();
    launcher_->send(std::move(message));
    return launcher_->next_of(job, Body::kJobOpened).job_opened().error();
  };
  EXPECT_NE(error_of(open_job("not an id", state_)), "");
  auto elsewhere = open_job(job_, state_);
  elsewhere.mutable_open_job()->set_session_root(ground_.path() + "/missing");
  EXPECT_NE(error_of(elsewhere).find("/missing"), std::string::npos);
  auto contained = open_job(job_, state_);
  contained.mutable_open_job()->set_contain("by magic");
  EXPECT_NE(error_of(contained), "");
  open(job_);
  EXPECT_NE(error_of(open_job(job_, state_, false, 1min, 1)).find("attempt 0"), std::string::npos);
  launcher_->send(leave(job_));
  EXPECT_TRUE(launcher_->next_of(job_, Body::kJobClosed).has_job_closed());
  launcher_->send(leave(job_));  // the job is no longer here
  EXPECT_TRUE(launcher_->next_of(job_, Body::kJobClosed).has_job_closed());
  EXPECT_TRUE(agent_->runs());
}

TEST_F(WarmJobsTest, OutputIsConnectedWhenThereIsSome) {
  ReceivedOutput taken;
  const FakeHub hub(state_, {output_key(job_)}, taken);
  start();
  open(job_);
  const std::string fifo = ground_.path() + "/go";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  launcher_->send(launch(job_, {{"true"}, {"sh", "-c", "read x < " + fifo + "; echo hello; echo again"}}));
  EXPECT_TRUE(launcher_->next_of(job_, Body::kRankExited).has_rank_exited());
  {
    const std::lock_guard lock(taken.mutex);
    EXPECT_EQ(taken.connections, 0);
  }
  const int go = ::open(fifo.c_str(), O_WRONLY);
  ASSERT_EQ(::write(go, "\n", 1), 1);
  ::close(go);
  EXPECT_FALSE(launcher_->next_of(job_, Body::kHostEmpty).host_empty().no_output());
  const std::string identity = output_key(job_).identity;
  EXPECT_TRUE(taken.wait_until([&] { return taken.finished[identity] == 1; }));
  EXPECT_EQ(taken.stdout_of[identity + " 1"], "hello\nagain\n");
  EXPECT_EQ(taken.connections, 1);
  launcher_->send(leave(job_));
  EXPECT_TRUE(launcher_->next_of(job_, Body::kJobClosed).has_job_closed());
}

TEST_F(WarmJobsTest, ItIsDetachedAndLeavesWhenItIsTold) {
  start();
  agent_->close_bootstrap();
  const auto info = read_process(agent_->pid());
  ASSERT_TRUE(info);
  EXPECT_EQ(info->session, agent_->pid());
  char target[64] = {};
  const std::string link = "/proc/" + std::to_string(agent_->pid()) + "/fd/1";
  ASSERT_GT(::readlink(link.c_str(), target, sizeof target - 1), 0);
  EXPECT_STREQ(target, "/dev/null");
  open(job_);
  launcher_->send(launch(job_, {{ground_.victim("sleeper"), job_}}));
  EXPECT_TRUE(launcher_->next_of(job_, Body::kLaunched).has_launched());
  const pid_t nursery = child_named(agent_->pid(), "muster-nursery");
  EXPECT_GT(nursery, 0);
  v1::LauncherMessage go;
  go.mutable_leave();
  launcher_->send(go);
  EXPECT_TRUE(agent_->ended_well());
  EXPECT_EQ(processes_with(job_).size(), 0U);
  const auto after = read_process(nursery);
  EXPECT_TRUE(!after || after->is_dead());
}

TEST_F(WarmJobsTest, WithoutAJobForLongItEnds) {
  start([](v1::AgentJoin& join) { join.set_idle_timeout_ms(300); });
  open(job_);
  launcher_->send(launch(job_, {{"sleep", "1"}}));
  EXPECT_TRUE(launcher_->next_of(job_, Body::kHostEmpty).has_host_empty());
  EXPECT_TRUE(agent_->runs());
  launcher_->send(leave(job_));
  EXPECT_TRUE(launcher_->next_of(job_, Body::kJobClosed).has_job_closed());
  EXPECT_TRUE(agent_->ended_well());
}

TEST_F(WarmJobsTest, KilledItTakesEverythingAlong) {
  start();
  open(job_);
  launcher_->send(launch(job_, {{ground_.victim("sleeper"), job_}}));
  EXPECT_TRUE(launcher_->next_of(job_, Body::kLaunched).has_launched());
  const pid_t nursery = child_named(agent_->pid(), "muster-nursery");
  agent_->kill_now();
  EXPECT_FALSE(agent_->ended_well());
  EXPECT_EQ(left_after(job_, gone_within()), 0U);
  EXPECT_TRUE(eventually(gone_within(), [nursery] { return !read_process(nursery).has_value(); }));
}

}  // namespace
}  // namespace muster::agent::warm_jobs_test
