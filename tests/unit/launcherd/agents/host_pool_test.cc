// Jobs on the agents of a pool, with the real agent program on this host. Jobs share an agent, and the next launcherd
// finds the agent again.
#include "launcherd/agents/host_pool.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "base/build_id.h"
#include "base/file.h"
#include "base/ids.h"
#include "launcherd/output/journal_sink.h"
#include "launcherd/run/job_runner.h"
#include "launcherd/start/make_bootstrap.h"
#include "proto/muster/v1/pool.pb.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::launcherd::host_pool_test {
namespace {

using testing_support::TempDir;

using ::testing::HasSubstr;
using namespace std::chrono_literals;

template <typename T>
T must(base::Result<T> result) {
  EXPECT_TRUE(result.ok()) << result.status();
  if (!result.ok()) std::abort();
  return std::move(result).value();
}

// One job and what became of it.
class Job final : private JobObserver {
 public:
  Job(base::Loop& loop, const base::Clock& clock, HostPool& pool, const std::string& directory, PooledJob pooled,
      const std::string& script, int ranks)
      : loop_(loop), sink_(must(JournalSink::open(directory + "/" + pooled.job_id + ".out", &clock))) {
    model::JobSpec spec;
    spec.command = {"/bin/sh", "-c", script};
    spec.workdir = directory;
    spec.lease = 60s;
    spec.placement.hosts = {{.name = "localhost", .slots = ranks}};
    spec.placement.np = ranks;
    pooled.with_past = [past = sink_->past()](ExpectedAgent expected) {
      const auto last = past.last_delivered.find(expected.agent);
      if (last != past.last_delivered.end()) expected.last_delivered = last->second;
      std::erase_if(expected.ranks, [&](int rank) { return past.ended_ranks.contains(rank); });
      return expected;
    };
    const LaunchOptions options{.job_id = pooled.job_id, .attempt = pooled.attempt, .resumes = pooled.resumes};
    JobObserver* const observer = this;
    runner_ = std::make_unique<JobRunner>(loop, clock,
                                          JobSetup{spec, must(model::place(spec.placement)), options,
                                                   base::Environment::current(), sink_.get(), observer},
                                          pool.agents_for(pooled));
    const base::Status started = runner_->start();
    EXPECT_TRUE(started.ok()) << started;
  }

  void stop() { runner_->stop(StopCause::kTerminate); }

  // Runs the loop until `is_true`, which is called after each event of the job.
  void wait(const std::function<bool(const Job&)>& is_true) {
    const base::Timer watchdog = loop_.after(30s, [this] {
      ADD_FAILURE() << "the condition did not become true";
      loop_.stop();
      is_late_ = true;
    });
    while (!is_true(*this) && !is_late_) {
      waits_ = true;
      loop_.run();
    }
  }
  const JobOutcome& wait_for_end() {
    wait([](const Job& job) { return job.outcome.has_value(); });
    EXPECT_TRUE(outcome.has_value());
    if (!outcome) outcome.emplace();
    return *outcome;
  }

  bool is_running = false;
  std::vector<long> pids;
  std::optional<JobOutcome> outcome;

 private:
  static void log(const std::string& line) { std::fprintf(stderr, "job: %s\n", line.c_str()); }
  void changed() {
    if (std::exchange(waits_, false)) loop_.stop();
  }
  void on_progress(int, int, const std::vector<std::string>&) override {}
  void on_running() override {
    is_running = true;
    changed();
  }
  void on_note(const std::string&) override {}
  void on_warning(const std::string& line) override { log(line); }
  void on_root_cause(const model::RankEnd&) override {}
  void on_finished(const JobOutcome& ended) override {
    outcome = ended;
    // For the log of a test that fails.
    for (const HostFailure& failure : ended.host_failures) log(failure.host + ": " + failure.message);
    for (const HostFailure& failure : ended.unclean) log(failure.host + ": not clean: " + failure.message);
    if (!ended.output_failure.empty()) log(ended.output_failure);
    end_timer_ = loop_.after(base::Duration::zero(), [this] { changed(); });
  }
  void on_event(const model::JobEvent& event) override {
    if (const auto* up = std::get_if<model::RankUp>(&event)) pids.push_back(up->pid);
    changed();
  }

  base::Loop& loop_;
  bool waits_ = false;
  bool is_late_ = false;
  base::Timer end_timer_;  // fires when the handler of the end has returned
  std::unique_ptr<JournalSink> sink_;
  std::unique_ptr<JobRunner> runner_;
};

class HostPoolTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ::signal(SIGPIPE, SIG_IGN);
    ASSERT_TRUE(base::make_private_directory(directory / "sessions").ok());
    ASSERT_EQ(::mkfifo((directory / "gate").c_str(), 0600), 0);
    start_pool();
  }
  // A second call stands for the next launcherd, which finds what the first one left.
  void start_pool() {
    BootstrapOptions bootstrap_options;
    bootstrap_options.agent_path = MUSTER_TEST_AGENT;
    bootstrap_options.agent_id = base::build_id();
    bootstrap_options.on_stderr = [](const std::string& host, const std::string& line) {
      std::fprintf(stderr, "%s: %s\n", host.c_str(), line.c_str());
    };
    bootstrap = must(make_bootstrap(bootstrap_options));
    HostPoolOptions options;
    options.state_file = directory / "agents";
    options.session_root = directory / "sessions";
    options.on_note = [this](const std::string& line) { notes.push_back(line); };
    pool = must(HostPool::start(loop, clock, options, bootstrap.get()));
  }
  void stop_pool() {
    pool->let_go([this] { loop.stop(); });
    loop.run();
    jobs.clear();
    pool.reset();
    bootstrap.reset();
  }
  void TearDown() override {
    jobs.clear();
    // The agent may still be closing jobs. Until then it does not count as an agent without a job.
    base::Timer poll = loop.every(5ms, [this] {
      if (agent_jobs() == 0) loop.stop();
    });
    loop.run();
    poll.cancel();
    stop_pool();
  }
  int agent_jobs() const { return pool->view({.name = "localhost"}).jobs; }

  // The id is random, because a sweep finds processes of other test runs by it.
  static PooledJob new_job() { return {.job_id = base::JobId::random().str(), .secret = base::random_hex(16)}; }
  Job& start(PooledJob job, const std::string& script, int ranks = 2) {
    jobs.push_back(std::make_unique<Job>(loop, clock, *pool, directory / "", std::move(job), script, ranks));
    return *jobs.back();
  }
  // Releases both readers of the gate.
  void open_gate() {
    gate.reset(::open((directory / "gate").c_str(), O_RDWR | O_CLOEXEC));
    ASSERT_EQ(::write(gate.get(), "go\ngo\n", 6), 6);
  }
  std::string output_of(const std::string& id) const { return must(base::read_file(directory / (id + ".out"))); }
  int agents_started() const {
    return static_cast<int>(std::ranges::count_if(
        notes, [](const std::string& line) { return line.find("agent started") != std::string::npos; }));
  }

  TempDir directory;
  base::SystemClock clock;
  base::Loop loop;
  base::UniqueFd gate;
  std::vector<std::string> notes;
  std::unique_ptr<Bootstrap> bootstrap;
  std::unique_ptr<HostPool> pool;
  std::vector<std::unique_ptr<Job>> jobs;
};

TEST_F(HostPoolTest, SharesAnAgentBetweenJobs) {
  const PooledJob first = new_job();
  const PooledJob third = new_job();
  EXPECT_EQ(start(first, "echo first").wait_for_end().exit_code, 0);
  EXPECT_EQ(start(new_job(), "exit 3").wait_for_end().exit_code, 3);
  EXPECT_EQ(start(third, "echo third >&2").wait_for_end().exit_code, 0);
  EXPECT_EQ(agents_started(), 1);
  EXPECT_THAT(output_of(first.job_id), HasSubstr("first"));
  EXPECT_THAT(output_of(third.job_id), HasSubstr("third"));
}

TEST_F(HostPoolTest, KeepsOtherJobsWhenOneFails) {
  Job& other = start(new_job(), "read line < gate; echo done");
  other.wait([](const Job& job) { return job.is_running; });
  EXPECT_EQ(start(new_job(), "kill -9 $$").wait_for_end().exit_code, 128 + 9);
  EXPECT_FALSE(other.outcome.has_value());
  open_gate();
  EXPECT_EQ(other.wait_for_end().exit_code, 0);
}

TEST_F(HostPoolTest, ResumesAJobUnderTheNextLauncherd) {
  PooledJob wanted = new_job();
  Job& before = start(wanted, "echo before; read line < gate; echo after");
  before.wait([](const Job& job) { return job.is_running; });
  const std::vector<long> pids = before.pids;
  ASSERT_EQ(pids.size(), 2U);
  stop_pool();
  for (const long pid : pids) EXPECT_EQ(::kill(static_cast<pid_t>(pid), 0), 0) << "the ranks never notice";
  start_pool();
  wanted.resumes = wanted.was_running = true;
  Job& after = start(wanted, "never started");
  after.wait([](const Job& job) { return job.is_running; });
  EXPECT_EQ(after.pids, pids);
  open_gate();
  EXPECT_EQ(after.wait_for_end().exit_code, 0);  // a failed rank would end the other one before it has written
  const std::string output = output_of(wanted.job_id);
  const auto count = [&](const std::string& word) {
    int n = 0;
    for (std::size_t at = output.find(word); at != std::string::npos; at = output.find(word, at + 1)) ++n;
    return n;
  };
  EXPECT_EQ(count("before"), 2);
  EXPECT_EQ(count("after"), 2);
}

TEST_F(HostPoolTest, ReportsTheExitCodeOfAJobThatEndedWithoutLauncherd) {
  PooledJob wanted = new_job();
  Job& before = start(wanted, "read line < gate; echo late; exit 7", 1);
  before.wait([](const Job& job) { return job.is_running; });
  const pid_t pid = static_cast<pid_t>(before.pids.at(0));
  stop_pool();
  const base::UniqueFd rank(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  ASSERT_TRUE(rank.valid());
  open_gate();
  pollfd ended{rank.get(), POLLIN, 0};
  ASSERT_EQ(::poll(&ended, 1, 20'000), 1);
  start_pool();
  wanted.resumes = wanted.was_running = true;
  EXPECT_EQ(start(wanted, "never started", 1).wait_for_end().exit_code, 7);
  EXPECT_THAT(output_of(wanted.job_id), HasSubstr("late"));
}

TEST_F(HostPoolTest, StopsAJobUnderTheNextLauncherd) {
  PooledJob wanted = new_job();
  Job& before = start(wanted, "sleep 1000");
  before.wait([](const Job& job) { return job.is_running; });
  const std::vector<long> pids = before.pids;
  stop_pool();
  start_pool();
  wanted.resumes = wanted.was_running = true;
  Job& after = start(wanted, "never started");
  after.wait([](const Job& job) { return job.is_running; });
  after.stop();
  EXPECT_EQ(after.wait_for_end().cause, StopCause::kTerminate);
  for (const long pid : pids) EXPECT_EQ(::kill(static_cast<pid_t>(pid), 0), -1);
}

}  // namespace
}  // namespace muster::launcherd::host_pool_test
