// How long a job with many hosts needs for its next generation. The launcher's code is the real one: RestartingJob with
// its own agents (over TLS). The agents are simulated in the same process (simulated_hosts.h). So this is a
// simulation: it has no ssh, no processes and no network.
//
//   generation_sim [--json] [--ranks N] [--changes N] [--only live|restart] AGENTS…
//
// live     a host of an elastic job dies (--min-np). From its death until all other hosts have the next generation's
//          numbers. The last change takes rank 0's host, and so the store.
// restart  a rank fails, and all ranks start again on the same hosts, by the agents that are there (--max-restarts).
//          From the failure until all ranks run again.
#include <signal.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/ids.h"
#include "base/loop.h"
#include "base/strings.h"
#include "bench/guarded_run.h"
#include "bench/simulated_hosts.h"
#include "launcherd/output/output_sink.h"
#include "launcherd/run/restarting_job.h"

namespace muster::bench {
namespace {

using Clock = SimulatedHosts::Clock;

constexpr std::chrono::seconds kPatience{120};
constexpr std::chrono::milliseconds kPause{500};  // between two changes

struct Options {
  int ranks = 8;
  int changes = 5;
  bool is_json = false;
  std::string only;
  std::vector<int> agents;
};

struct Change {
  double wall_s = 0;
  double cpu_s = 0;  // of the launcher's loop thread
};

struct Measured {
  double start_s = 0;
  std::vector<Change> changes;
};

double seconds(Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

double thread_cpu_s() {
  timespec used{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

class NoOutput final : public launcherd::OutputSink {
 public:
  base::Status write(int, proto::OutputStream, std::string_view, std::uint8_t) override { return base::ok_status(); }
  base::Status end_rank(int) override { return base::ok_status(); }
  base::Status flush() override { return base::ok_status(); }
};

std::string host_name(int number) {
  return fmt::format("s{:05}", number);
}

model::JobSpec make_job(const Options& options, int agents, bool is_live) {
  model::JobSpec job;
  job.command = {"true"};
  job.workdir = "/";
  for (int i = 0; i < agents; ++i) {
    job.placement.hosts.push_back({.name = host_name(i)});
    job.placement.hosts.back().slots = options.ranks;
  }
  job.input.to = model::InputTo::kNone;
  job.start_timeout = kPatience;
  job.lease = kPatience;  // on a busy machine the simulated agents are silent while others connect
  if (is_live) {
    job.live = model::ElasticSpec{.min_ranks = 1};
  } else {
    job.failure.on_failure = model::OnFailure::kRestart;
    job.max_restarts = options.changes;
  }
  return job;
}

// Runs one job and causes its changes, on the launcher's loop.
class Run final : private launcherd::JobObserver {
 public:
  Run(const Options& options, int agents, bool is_live) : options_(options), agents_(agents), is_live_(is_live) {}

  base::Result<Measured> run_blocking() {
    SimulatedHosts::Events events;
    events.on_answered = [this](int, Clock::time_point at) { loop_.post([this, at] { changed(at); }); };
    MUSTER_ASSIGN_OR_RETURN(hosts_, SimulatedHosts::make(std::move(events)));
    const model::JobSpec job = make_job(options_, agents_, is_live_);
    MUSTER_ASSIGN_OR_RETURN(const model::Placement placement, model::place(job.placement));
    launcherd::LaunchOptions launch;
    launch.job_id = base::JobId::random().str();
    launch.agent_link = "dial";
    job_ = std::make_unique<launcherd::RestartingJob>(
        loop_, clock_, launcherd::JobSetup{job, placement, launch, base::Environment(), &sink_, this},
        [this](int) { return hosts_.get(); });
    began_at_ = Clock::now();
    MUSTER_RETURN_IF_ERROR(job_->start());
    const base::Timer limit = loop_.after(kPatience * (options_.changes + 2), [this] { fail("it takes too long"); });
    loop_.run();
    job_.reset();
    if (!failure_.empty()) return base::error(base::Code::kAborted, "{}", failure_);
    return measured_;
  }

 private:
  void plan_change() {
    if (static_cast<int>(measured_.changes.size()) == options_.changes) {
      is_done_ = true;
      job_->stop(launcherd::StopCause::kTerminate);
      return;
    }
    pause_ = loop_.after(kPause, [this] {
      const int number = static_cast<int>(measured_.changes.size()) + 1;
      began_at_ = Clock::now();
      cpu_at_ = thread_cpu_s();
      if (!is_live_) {
        hosts_->fail_rank(host_name(agents_ / 2));
      } else {
        hosts_->kill_host(host_name(number == options_.changes ? 0 : agents_ - number));
      }
    });
  }

  void changed(Clock::time_point at) {
    measured_.changes.push_back({.wall_s = seconds(at - began_at_), .cpu_s = thread_cpu_s() - cpu_at_});
    plan_change();
  }

  void fail(const std::string& why) {
    failure_ = why;
    loop_.stop();
  }

  void on_progress(int, int, const std::vector<std::string>&) override {}
  void on_running() override {
    if (measured_.start_s > 0) return changed(Clock::now());
    measured_.start_s = seconds(Clock::now() - began_at_);
    plan_change();
  }
  void on_note(const std::string&) override {}
  void on_warning(const std::string& line) override { last_warning_ = line; }
  void on_root_cause(const model::RankEnd&) override {}
  void on_finished(const launcherd::JobOutcome& outcome) override {
    if (is_done_) return loop_.stop();
    std::string why = fmt::format("the job has ended with {}: {}", outcome.exit_code, last_warning_);
    if (!outcome.host_failures.empty()) why += "; " + outcome.host_failures.front().message;
    fail(why);
  }

  const Options& options_;
  const int agents_;
  const bool is_live_;
  base::Loop loop_;
  const base::SystemClock clock_;
  NoOutput sink_;
  Measured measured_;
  Clock::time_point began_at_;
  double cpu_at_ = 0;
  bool is_done_ = false;
  std::string failure_;
  std::string last_warning_;
  base::Timer pause_;
  std::unique_ptr<SimulatedHosts> hosts_;
  std::unique_ptr<launcherd::RestartingJob> job_;
};

// Each agent has two ends of its log-in and two of its control connection in this process.
base::Status allow_descriptors(int agents) {
  constexpr int kEach = 5;
  constexpr int kOthers = 200;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return base::errno_error(errno, "read the limit of open files");
  limit.rlim_cur = limit.rlim_max;
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return base::errno_error(errno, "raise the limit of open files");
  const auto needed = static_cast<rlim_t>(agents * kEach + kOthers);
  if (limit.rlim_cur >= needed) return base::ok_status();
  return base::error(base::Code::kResourceExhausted, "{} agents need {} open files, {} are allowed: raise ulimit -Hn",
                     agents, needed, limit.rlim_cur);
}

base::Result<Measured> measure(const Options& options, int agents, bool is_live) {
  MUSTER_RETURN_IF_ERROR(allow_descriptors(agents));
  Run run(options, agents, is_live);
  return run.run_blocking();
}

void print_row(const Options& options, int agents, const char* what, const Measured& measured) {
  std::vector<double> walls;
  std::vector<double> cpus;
  for (const Change& change : measured.changes) {
    walls.push_back(change.wall_s);
    cpus.push_back(change.cpu_s);
  }
  if (options.is_json) {
    fmt::print(
        "{{\"bench\":\"generation_sim\",\"job\":\"{}\",\"agents\":{},\"ranks\":{},\"start_s\":{:.3f},"
        "\"changes_s\":[{:.3f}],\"loop_cpu_s\":[{:.3f}]}}\n",
        what, agents, agents * options.ranks, measured.start_s, fmt::join(walls, ","), fmt::join(cpus, ","));
  } else {
    fmt::print("| {:<7} | {:>6} | {:>6} | {:>6.2f} | {:.3f} | {:.3f} |\n", what, agents, agents * options.ranks,
               measured.start_s, fmt::join(walls, " "), fmt::join(cpus, " "));
  }
  std::fflush(stdout);
}

// nullopt: a mistake in the command line.
std::optional<Options> parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--json") {
      options.is_json = true;
    } else if (word == "--only" && i + 1 < argc) {
      options.only = argv[++i];
      if (options.only != "live" && options.only != "restart") return std::nullopt;
    } else if ((word == "--ranks" || word == "--changes") && i + 1 < argc) {
      const auto number = base::parse_decimal(argv[++i], 1'000);
      if (!number || *number == 0) return std::nullopt;
      (word == "--ranks" ? options.ranks : options.changes) = static_cast<int>(*number);
    } else if (const auto agents = base::parse_decimal(word, 100'000); agents && *agents > 0) {
      options.agents.push_back(static_cast<int>(*agents));
    } else {
      return std::nullopt;
    }
  }
  if (options.agents.empty()) options.agents = {100, 1'000};
  for (const int agents : options.agents) {
    if (agents <= options.changes) return std::nullopt;  // each change of a live job takes a host
  }
  return options;
}

int run(const Options& options) {
  if (!options.is_json) {
    fmt::print("Simulated agents. Seconds of each change: wall time, and processor time of the launcher's loop.\n\n");
    fmt::print("| job     | agents |  ranks |  start | changes | loop's processor time |\n");
    fmt::print("|---------|--------|--------|--------|---------|-----------------------|\n");
  }
  for (const int agents : options.agents) {
    for (const bool is_live : {true, false}) {
      const char* const what = is_live ? "live" : "restart";
      if (!options.only.empty() && options.only != what) continue;
      const auto measured = measure(options, agents, is_live);
      if (!measured.ok()) {
        fmt::print(stderr, "generation_sim, {}, {} agents: {}\n", what, agents, measured.status().message());
        return 1;
      }
      print_row(options, agents, what, *measured);
    }
  }
  return 0;
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  const auto options = muster::bench::parse(argc, argv);
  if (!options) {
    fmt::print(stderr,
               "usage: generation_sim [--json] [--ranks N] [--changes N] [--only live|restart] AGENTS…\n"
               "AGENTS must be more than the changes\n");
    return 2;
  }
  ::signal(SIGPIPE, SIG_IGN);
  return muster::bench::run_guarded("generation-sim",
                                    [&options](const std::string&) { return muster::bench::run(*options); });
}
