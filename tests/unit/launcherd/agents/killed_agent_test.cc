// A job of hvdrun on this host. Its agent is killed when the rank has ended and the console has not taken the rank's
// output.
#include <signal.h>
#include <unistd.h>

#include <condition_variable>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/build_id.h"
#include "base/file.h"
#include "base/ids.h"
#include "base/strings.h"
#include "launcherd/agents/own_agents.h"
#include "launcherd/run/job_runner.h"
#include "launcherd/start/make_bootstrap.h"
#include "model/job_placement.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::launcherd::killed_agent_test {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

// At most what an agent keeps for a launcher that takes nothing. Sockets may hold all of it, and then nothing is lost
// with the agent.
constexpr std::size_t kWritten = 4'000'000;
constexpr int kTries = 100;

// A console that is not read until the test calls read().
class UnreadConsole final : public OutputSink {
 public:
  base::Status write(int, proto::OutputStream, std::string_view bytes, std::uint8_t) override {
    std::unique_lock lock(mutex_);
    read_.wait(lock, [this] { return is_read_; });
    bytes_ += bytes.size();
    return base::ok_status();
  }
  base::Status end_rank(int) override { return base::ok_status(); }
  base::Status flush() override { return base::ok_status(); }
  void read() {
    const std::lock_guard lock(mutex_);
    is_read_ = true;
    read_.notify_all();
  }
  std::size_t bytes() {
    const std::lock_guard lock(mutex_);
    return bytes_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable read_;
  bool is_read_ = false;
  std::size_t bytes_ = 0;
};

// The child of this process that runs the agent program.
pid_t agent_pid() {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const auto stat = base::read_file("/proc/" + name + "/stat", 4096);
    const auto command = base::read_file("/proc/" + name + "/cmdline", 4096);
    if (!stat.ok() || !command.ok() || command->find(MUSTER_TEST_AGENT) != 0) continue;
    const auto words = base::split(std::string_view(*stat).substr(stat->rfind(')') + 2), ' ');
    if (words.size() > 1 && words[1] == std::to_string(::getpid())) return std::stoi(name);
  }
  return -1;
}

class KilledAgentJob final : private JobObserver {
 public:
  // Forwards OwnAgents' events to the job. Kills the agent when its host is empty, and reads the console when the agent
  // is gone.
  class Killer final : public JobAgents, private AgentListener {
   public:
    Killer(std::shared_ptr<JobAgents> agents, UnreadConsole& console) : agents_(std::move(agents)), console_(console) {}
    base::Status start(std::vector<AgentHost> hosts, OutputSink* sink, AgentListener* listener) override {
      to_ = listener;
      return agents_->start(std::move(hosts), sink, this);
    }
    void cancel_start() override { agents_->cancel_start(); }
    void send(int agent, v1::LauncherMessage message) override { agents_->send(agent, std::move(message)); }
    void send_unnumbered(int agent, v1::LauncherMessage message) override {
      agents_->send_unnumbered(agent, std::move(message));
    }
    void expect_output(int agent, const std::vector<int>& ranks) override { agents_->expect_output(agent, ranks); }
    void output_ends(int agent) override { agents_->output_ends(agent); }
    void leave(int agent) override { agents_->leave(agent); }
    void drop(int agent) override { agents_->drop(agent); }
    void sweep(int agent, std::function<void(base::Result<CommandResult>)> done) override {
      agents_->sweep(agent, std::move(done));
    }

    bool was_killed = false;

   private:
    void agent_started(int agent) override { to_->agent_started(agent); }
    void agent_up(int agent, AgentUp up) override { to_->agent_up(agent, std::move(up)); }
    void agent_failed(int agent, const std::string& message) override { to_->agent_failed(agent, message); }
    void agent_message(int agent, const v1::AgentMessage& message) override {
      to_->agent_message(agent, message);
      if (!message.has_host_empty()) return;
      const pid_t pid = agent_pid();
      was_killed = pid > 0 && ::kill(pid, SIGKILL) == 0;
    }
    void agent_stream(int agent, bool is_there) override { to_->agent_stream(agent, is_there); }
    void agent_gone(int agent, const base::Status& status) override {
      to_->agent_gone(agent, status);
      console_.read();
    }
    void agent_unreadable(int agent) override { to_->agent_unreadable(agent); }
    void output_complete(int agent) override { to_->output_complete(agent); }
    void output_cut(int agent) override { to_->output_cut(agent); }
    void output_failed(const base::Status& status) override { to_->output_failed(status); }
    void note(const std::string& line) override { to_->note(line); }

    const std::shared_ptr<JobAgents> agents_;
    UnreadConsole& console_;
    AgentListener* to_ = nullptr;
  };

  const JobOutcome& run(const std::string& script) {
    BootstrapOptions bootstrap_options;
    bootstrap_options.agent_path = MUSTER_TEST_AGENT;
    bootstrap_options.agent_id = base::build_id();
    auto bootstrap = make_bootstrap(bootstrap_options);
    EXPECT_TRUE(bootstrap.ok()) << bootstrap.status();
    if (!bootstrap.ok()) return outcome_.emplace();
    bootstrap_ = std::move(*bootstrap);
    EXPECT_TRUE(base::make_private_directory(directory_ / "sessions").ok());
    model::JobSpec job;
    job.command = {"/bin/sh", "-c", script};
    job.workdir = directory_ / "";
    job.placement.hosts = {{.name = "localhost", .slots = 1}};
    job.placement.np = 1;
    const auto placement = model::place(job);
    EXPECT_TRUE(placement.ok()) << placement.status();
    const std::string id = base::JobId::random().str();
    auto own = std::make_shared<OwnAgents>(
        loop_, OwnAgentsOptions{.job_id = id, .session_root = directory_ / "sessions"}, bootstrap_.get());
    killer_ = std::make_shared<Killer>(std::move(own), console_);
    JobObserver* const observer = this;
    JobRunner runner(loop_, clock_,
                     {job, *placement, {.job_id = id}, base::Environment::current(), &console_, observer}, killer_);
    const base::Timer deadline = loop_.after(60s, [this] {
      ADD_FAILURE() << "the test's deadline passed";
      loop_.stop();
    });
    EXPECT_TRUE(runner.start().ok());
    loop_.run();
    console_.read();  // also if the agent was not killed
    return outcome_ ? *outcome_ : outcome_.emplace();
  }
  bool was_killed() const { return killer_ != nullptr && killer_->was_killed; }
  std::size_t taken() { return console_.bytes(); }

 private:
  testing_support::TempDir directory_;
  base::SystemClock clock_;
  base::Loop loop_;
  UnreadConsole console_;
  std::unique_ptr<Bootstrap> bootstrap_;
  std::shared_ptr<Killer> killer_;

  void on_progress(int, int, const std::vector<std::string>&) override {}
  void on_running() override {}
  void on_note(const std::string&) override {}
  void on_warning(const std::string&) override {}
  void on_root_cause(const model::RankEnd&) override {}
  void on_finished(const JobOutcome& outcome) override {
    outcome_ = outcome;
    loop_.post([this] { loop_.stop(); });
  }

  std::optional<JobOutcome> outcome_;
};

// Runs jobs of this script until one may have lost lines with its agent, and calls `check` for it. Most jobs lose some.
void lose_lines(const std::string& script, const std::function<void(const JobOutcome&)>& check) {
  ::signal(SIGPIPE, SIG_IGN);
  for (int tries = 0; tries < kTries; ++tries) {
    KilledAgentJob job;
    const JobOutcome& outcome = job.run(script);
    ASSERT_TRUE(job.was_killed());
    EXPECT_LE(job.taken(), kWritten);  // 0 if the end of the ranks arrived before the first of their output
    EXPECT_TRUE(outcome.unclean.empty());
    if (!outcome.host_failures.empty()) return check(outcome);
    EXPECT_EQ(job.taken(), kWritten);
  }
  FAIL() << "no agent had lines left in " << kTries << " jobs";
}

TEST(KilledAgent, ReportsLinesThatMayBeMissing) {
  lose_lines(fmt::format("yes 'a line' | head -c {}", kWritten), [](const JobOutcome& outcome) {
    EXPECT_EQ(outcome.exit_code, 125);
    EXPECT_EQ(outcome.cause, StopCause::kHostFailed);
    ASSERT_EQ(outcome.ends.size(), 1U);
    EXPECT_FALSE(outcome.ends.front().failed());
    ASSERT_EQ(outcome.host_failures.size(), 1U);
    EXPECT_THAT(outcome.host_failures.front().message,
                HasSubstr("localhost: the agent there ended before it had sent all output of the ranks there"));
  });
}

TEST(KilledAgent, KeepsAFailedRankAsTheCause) {
  lose_lines(fmt::format("yes 'a line' | head -c {}; exit 3", kWritten), [](const JobOutcome& outcome) {
    EXPECT_EQ(outcome.exit_code, 3);
    ASSERT_EQ(outcome.host_failures.size(), 1U);
    EXPECT_THAT(outcome.host_failures.front().message, HasSubstr("the end of their output may be missing"));
  });
}

}  // namespace
}  // namespace muster::launcherd::killed_agent_test
