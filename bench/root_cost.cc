// What a launcher itself costs for each host and each rank, without connections: a simulation. The launcher's code is
// real, from an agent's message that has arrived to the message that it sends. The agents answer at once
// (instant_agents.h), so there is no network, no ssh and no process. Their own cost is included.
//
//   root_cost [--json] [--ranks N] [--cores N] [--singles] [--only hvdrun|launcherd] HOSTS…
//
// hvdrun     a RestartingJob with its record (JobRecord), which the foreground API reads.
// launcherd  a RunningJob with a real job store on disk, and a client that watches all events.
// Each runs two jobs: one whose ranks end by themselves, and one that is stopped.
#include <malloc.h>
#include <sys/resource.h>
#include <time.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/file.h"
#include "base/ids.h"
#include "base/loop.h"
#include "base/strings.h"
#include "bench/guarded_run.h"
#include "bench/instant_agents.h"
#include "launcherd/daemon/running_job.h"
#include "launcherd/daemon/watch_streams.h"
#include "launcherd/output/output_sink.h"
#include "launcherd/run/job_record.h"
#include "launcherd/run/restarting_job.h"
#include "launcherd/store/job_store.h"

namespace muster::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kIdleTime{3};
constexpr std::chrono::milliseconds kSettle{200};
constexpr std::chrono::seconds kPatience{300};

struct Options {
  int ranks = 8;
  int cores = 0;
  bool is_json = false;
  bool is_grouped = true;
  std::string only;
  std::vector<int> hosts;
};

struct Measured {
  double up_s = 0;
  double start_s = 0;
  double exits_s = 0;
  double kill_s = 0;
  double idle_cpu = 0;
  double pings_per_s = 0;
  double up_mib = 0;       // in use when all hosts are up
  double running_mib = 0;  // in use while all ranks run
  double peak_mib = 0;     // of the process, resident
  double launch_kib = 0;   // of a host's Launch, on average
};

double seconds(Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

double process_cpu_s() {
  timespec used{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

double heap_mib() {
  const struct mallinfo2 info = ::mallinfo2();
  return static_cast<double>(info.uordblks + info.hblkhd) / (1 << 20);
}

double peak_mib() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

class NoOutput final : public launcherd::OutputSink {
 public:
  base::Status write(int, proto::OutputStream, std::string_view, std::uint8_t) override { return base::ok_status(); }
  base::Status end_rank(int) override { return base::ok_status(); }
  base::Status flush() override { return base::ok_status(); }
};

model::JobSpec job_of(const Options& options, int hosts) {
  model::JobSpec job;
  job.command = {"true"};
  job.workdir = "/";
  for (int i = 0; i < hosts; ++i) {
    job.placement.hosts.push_back({.name = fmt::format("s{:05}", i)});
    job.placement.hosts.back().slots = options.ranks;
  }
  job.input.to = model::InputTo::kNone;
  job.start_timeout = kPatience;
  job.lease = kPatience;
  // As many variables as a user of modules exports.
  for (int i = 0; i < 40; ++i) {
    job.environment.named.push_back(fmt::format("SIM_VARIABLE_{}=/opt/software/stack-{}/lib:/usr/lib", i, i));
  }
  return job;
}

// What both launchers do with a job. The caller measures between the calls.
class Launcher {
 public:
  struct Events {
    std::function<void()> on_up;       // all hosts are up
    std::function<void()> on_running;  // a client knows that all ranks run
    std::function<void()> on_ended;    // a client knows that the job has ended
  };
  virtual ~Launcher() = default;
  virtual base::Status start(const model::JobSpec& job, const model::Placement& placement) = 0;
  virtual void stop() = 0;
  virtual InstantAgents& agents() = 0;
};

class Hvdrun final : public Launcher, private launcherd::JobObserver {
 public:
  Hvdrun(base::Loop& loop, const Options& options, Events events)
      : loop_(loop),
        events_(std::move(events)),
        agents_(std::make_shared<InstantAgents>(
            loop, InstantAgentsOptions{.cores = options.cores, .is_grouped = options.is_grouped})) {}

  base::Status start(const model::JobSpec& job, const model::Placement& placement) override {
    launcherd::LaunchOptions launch;
    launch.job_id = base::JobId::random().str();
    launcherd::JobObserver* const observer = this;
    record_ = std::make_unique<launcherd::JobRecord>(launch.job_id, job.command, placement, clock_, observer);
    job_ = std::make_unique<launcherd::RestartingJob>(
        loop_, clock_, launcherd::JobSetup{job, placement, launch, base::Environment(), &sink_, record_.get()},
        [this](int) { return agents_; });
    MUSTER_RETURN_IF_ERROR(job_->start());
    agents_->connect();
    return base::ok_status();
  }
  void stop() override { job_->stop(launcherd::StopCause::kInterrupt); }
  InstantAgents& agents() override { return *agents_; }

 private:
  void on_progress(int up, int total, const std::vector<std::string>&) override {
    if (up == total && !std::exchange(is_up_, true)) events_.on_up();
  }
  void on_running() override { events_.on_running(); }
  void on_note(const std::string&) override {}
  void on_warning(const std::string& line) override { fmt::print(stderr, "hvdrun: {}\n", line); }
  void on_root_cause(const model::RankEnd&) override {}
  void on_finished(const launcherd::JobOutcome&) override { events_.on_ended(); }

  base::Loop& loop_;
  const Events events_;
  const base::SystemClock clock_;
  NoOutput sink_;
  bool is_up_ = false;
  std::shared_ptr<InstantAgents> agents_;
  std::unique_ptr<launcherd::JobRecord> record_;
  std::unique_ptr<launcherd::RestartingJob> job_;
};

class Launcherd final : public Launcher {
 public:
  Launcherd(base::Loop& loop, const Options& options, std::string directory, Events events)
      : loop_(loop),
        directory_(std::move(directory)),
        events_(std::move(events)),
        agents_(std::make_shared<InstantAgents>(
            loop, InstantAgentsOptions{.cores = options.cores, .is_grouped = options.is_grouped})) {}

  base::Status start(const model::JobSpec& job, const model::Placement& placement) override {
    MUSTER_RETURN_IF_ERROR(base::make_private_directory(directory_));
    MUSTER_ASSIGN_OR_RETURN(store_, launcherd::JobStore::open(directory_ + "/jobs.sqlite", loop_));
    MUSTER_ASSIGN_OR_RETURN(logs_, launcherd::LogReader::start(loop_));
    watches_ = std::make_unique<launcherd::WatchStreams>(store_.get());
    surroundings_.loop = &loop_;
    surroundings_.clock = &clock_;
    surroundings_.logs = logs_.get();
    surroundings_.jobs_directory = directory_;
    surroundings_.on_line = [](const std::string& line) { fmt::print(stderr, "launcherd: {}\n", line); };
    surroundings_.agents_for = [this](const launcherd::PooledJob&) { return agents_; };
    store_->append({launcherd::NewJob{.id = id_, .submitted = clock_.wall(), .spec = "spec"}}, fail_if_bad());
    launcherd::RunningJobOwner owner;
    owner.record = [this](launcherd::Batch batch) {
      store_->record(std::move(batch), [this](const base::Status& status) {
        fail_if_bad()(status);
        watches_->changed(id_);
      });
    };
    owner.on_ended = [] {};
    owner.settle_shares = [](const auto&, const launcherd::ShareSettled& done) { done(base::ok_status()); };
    job_ = std::make_unique<launcherd::RunningJob>(surroundings_, id_, placement, std::move(owner));
    store_->record({job_->starting(clock_.wall()), job_->recovery()}, [this, job](const base::Status& status) {
      fail_if_bad()(status);
      watch();
      job_->start(job, {});
      agents_->connect();
    });
    return base::ok_status();
  }
  void stop() override { job_->stop(launcherd::StopCause::kTerminate, "killed"); }
  InstantAgents& agents() override { return *agents_; }

 private:
  static std::function<void(base::Status)> fail_if_bad() {
    return [](const base::Status& status) {
      if (!status.ok()) fmt::print(stderr, "launcherd: not stored: {}\n", status.message());
    };
  }
  void watch() {
    gone_ = watches_->watch(id_, 0,
                            {.send = [this](const v1::Event& event) { got(event); },
                             .done = [this](const base::Status&) { events_.on_ended(); },
                             .when_written = [this](base::Loop::Task task) { loop_.post(std::move(task)); }});
  }
  void got(const v1::Event& event) {
    if (event.has_host_up() && ++hosts_up_ == static_cast<int>(job_->placement().hosts.size())) events_.on_up();
    if (event.job_state_changed().state() == v1::JOB_STATE_RUNNING) events_.on_running();
  }

  base::Loop& loop_;
  const std::string directory_;
  const Events events_;
  const base::SystemClock clock_;
  const base::JobId id_ = base::JobId::random();
  int hosts_up_ = 0;
  std::shared_ptr<InstantAgents> agents_;
  std::unique_ptr<launcherd::JobStore> store_;
  std::unique_ptr<launcherd::LogReader> logs_;
  std::unique_ptr<launcherd::WatchStreams> watches_;
  launcherd::JobSurroundings surroundings_;
  launcherd::Gone gone_;
  std::unique_ptr<launcherd::RunningJob> job_;
};

// One job. Its ranks end by themselves, or it is stopped.
class Run {
 public:
  Run(const Options& options, int hosts, bool is_stopped, Measured& measured)
      : options_(options), hosts_(hosts), is_stopped_(is_stopped), measured_(measured) {}

  base::Status run_blocking(const std::string& kind, const std::string& directory) {
    const Launcher::Events events{
        .on_up = [this] { up(); }, .on_running = [this] { running(); }, .on_ended = [this] { ended(); }};
    if (kind == "hvdrun") {
      launcher_ = std::make_unique<Hvdrun>(loop_, options_, events);
    } else {
      launcher_ = std::make_unique<Launcherd>(loop_, options_, directory, events);
    }
    const model::JobSpec job = job_of(options_, hosts_);
    MUSTER_ASSIGN_OR_RETURN(const model::Placement placement, model::place(job.placement));
    begin_ = Clock::now();
    base_mib_ = heap_mib();
    MUSTER_RETURN_IF_ERROR(launcher_->start(job, placement));
    const base::Timer limit = loop_.after(kPatience, [this] { loop_.stop(); });
    loop_.run();
    launcher_.reset();
    return is_ended_ ? base::ok_status() : base::error(base::Code::kAborted, "the job has not ended in time");
  }

 private:
  void up() {
    measured_.up_s = seconds(Clock::now() - begin_);
    measured_.up_mib = heap_mib() - base_mib_;
    begin_ = Clock::now();
  }
  void running() {
    measured_.start_s = seconds(Clock::now() - begin_);
    timer_ = loop_.after(kSettle, [this] {
      ::malloc_trim(0);
      measured_.running_mib = heap_mib() - base_mib_;
      measured_.launch_kib =
          static_cast<double>(launcher_->agents().launch_bytes()) / 1024 / static_cast<double>(hosts_);
      is_stopped_ ? finish() : idle();
    });
  }
  void idle() {
    const double cpu_s = process_cpu_s();
    const std::size_t pings = launcher_->agents().pings();
    timer_ = loop_.after(kIdleTime, [this, cpu_s, pings] {
      measured_.idle_cpu = (process_cpu_s() - cpu_s) / seconds(kIdleTime);
      measured_.pings_per_s = static_cast<double>(launcher_->agents().pings() - pings) / seconds(kIdleTime);
      finish();
    });
  }
  void finish() {
    begin_ = Clock::now();
    is_stopped_ ? launcher_->stop() : launcher_->agents().end_ranks();
  }
  void ended() {
    is_ended_ = true;
    (is_stopped_ ? measured_.kill_s : measured_.exits_s) = seconds(Clock::now() - begin_);
    measured_.peak_mib = peak_mib();
    loop_.stop();
  }

  const Options& options_;
  const int hosts_;
  const bool is_stopped_;
  Measured& measured_;
  base::Loop loop_;
  Clock::time_point begin_;
  double base_mib_ = 0;
  bool is_ended_ = false;
  base::Timer timer_;
  std::unique_ptr<Launcher> launcher_;
};

void print_row(const Options& options, const std::string& kind, int hosts, const Measured& one) {
  if (options.is_json) {
    fmt::print(
        "{{\"bench\":\"root_cost\",\"launcher\":\"{}\",\"hosts\":{},\"ranks\":{},\"up_s\":{:.3f},\"start_s\":{:.3f},"
        "\"exits_s\":{:.3f},\"kill_s\":{:.3f},\"idle_cpu\":{:.4f},\"up_mib\":{:.1f},\"running_mib\":{:.1f},"
        "\"peak_mib\":{:.1f},\"launch_kib\":{:.1f}}}\n",
        kind, hosts, hosts * options.ranks, one.up_s, one.start_s, one.exits_s, one.kill_s, one.idle_cpu, one.up_mib,
        one.running_mib, one.peak_mib, one.launch_kib);
  } else {
    fmt::print(
        "| {:<9} | {:>6} | {:>6} | {:>5.2f} | {:>5.2f} | {:>5.2f} | {:>5.2f} | {:>5.1f} % | {:>7.0f} | {:>6.0f} "
        "| {:>7.0f} | {:>6.0f} | {:>8.1f} |\n",
        kind, hosts, hosts * options.ranks, one.up_s, one.start_s, one.exits_s, one.kill_s, 100 * one.idle_cpu,
        one.pings_per_s, one.up_mib, one.running_mib, one.peak_mib, one.launch_kib);
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
    } else if (word == "--singles") {
      options.is_grouped = false;
    } else if (word == "--only" && i + 1 < argc) {
      options.only = argv[++i];
      if (options.only != "hvdrun" && options.only != "launcherd") return std::nullopt;
    } else if ((word == "--ranks" || word == "--cores") && i + 1 < argc) {
      const auto number = base::parse_decimal(argv[++i], 1'000);
      if (!number || (*number == 0 && word == "--ranks")) return std::nullopt;
      (word == "--ranks" ? options.ranks : options.cores) = static_cast<int>(*number);
    } else if (const auto hosts = base::parse_decimal(word, 100'000); hosts && *hosts > 0) {
      options.hosts.push_back(static_cast<int>(*hosts));
    } else {
      return std::nullopt;
    }
  }
  if (options.hosts.empty()) options.hosts = {1'000, 4'000, 10'000};
  return options;
}

// One process for one row, so that its peak of memory is its own.
int run(const Options& options, const std::string& kind, int hosts, const std::string& directory) {
  Measured measured;
  for (const bool is_stopped : {false, true}) {
    Run job(options, hosts, is_stopped, measured);
    const base::Status status = job.run_blocking(kind, fmt::format("{}/{}", directory, is_stopped ? "stop" : "exit"));
    if (status.ok()) continue;
    fmt::print(stderr, "root_cost, {}, {} hosts: {}\n", kind, hosts, status.message());
    return 1;
  }
  print_row(options, kind, hosts, measured);
  return 0;
}

void print_head(const Options& options) {
  if (options.is_json) return;
  fmt::print(
      "A simulation: the agents answer at once, without connections. Seconds of wall time; MiB of the heap.\n\n");
  fmt::print(
      "| launcher  |  hosts |  ranks |    up | start | exits |  kill |    idle | pings/s |  up MiB | running | peak "
      "RSS | "
      "Launch KiB |\n");
  fmt::print(
      "|-----------|--------|--------|-------|-------|-------|-------|---------|---------|---------|---------|---------"
      "-|-"
      "-----------|\n");
  std::fflush(stdout);
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  using namespace muster::bench;
  const auto options = parse(argc, argv);
  if (!options) {
    fmt::print(stderr,
               "usage: root_cost [--json] [--ranks N] [--cores N] [--singles] [--only hvdrun|launcherd] HOSTS…\n");
    return 2;
  }
  print_head(*options);
  for (const std::string kind : {"hvdrun", "launcherd"}) {
    if (!options->only.empty() && options->only != kind) continue;
    for (const int hosts : options->hosts) {
      const int status =
          run_guarded("root-cost", [&](const std::string& directory) { return run(*options, kind, hosts, directory); });
      if (status != 0) return status;
    }
  }
  return 0;
}
