// How launcherd fares with many hosts: launcherd unmodified in a process of its own, and simulated agents in this one
// (simulated_agents.h), which it awaits because a state directory is written for it that names them as the agents of a
// launcherd before it.
//
//   agent_sim [--json] [--ranks N] [--fanout N] [--dialling N] [--bin-dir DIR] AGENTS…
//
// Five times: from the first dial until all have a Welcome; from the submission of a job with ranks on every host
// until a watcher of its events has heard that it runs, which is after RankUp of each rank; from the moment at which
// all ranks end until that watcher has heard that the job has; from the kill of a second job of this size until its
// end; and from the start of another launcherd, after this one was killed with SIGKILL, until it has welcomed all.
// Beside them launcherd's memory and processor time.
//
// With more agents than --fanout (64), some are relays for the others, as in a real launcherd: relays are simulated,
// but speak their real protocol with launcherd (simulated_relay.h). --fanout 0: each agent has its own connection. What
// /metrics counts of agents, jobs and exits must be what happened, or the benchmark fails.
#include <signal.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "base/file.h"
#include "base/strings.h"
#include "bench/guarded_run.h"
#include "bench/launcherd_process.h"
#include "bench/simulated_agents.h"
#include "launcherd/agents/relays_among.h"
#include "launcherd/service/api_client.h"

namespace muster::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kPatience{60};
constexpr std::chrono::seconds kLongPatience{300};
constexpr std::chrono::seconds kSettleTime{7};  // launcherd stores its agents, and trims its heap
constexpr std::chrono::seconds kIdleTime{10};
constexpr int kOtherDescriptors = 100;  // of a process with many agents: all but their connections

struct Options {
  int ranks = 8;
  int dialling = 1'000'000;
  int fanout = launcherd::kDefaultFanout;
  bool is_json = false;
  std::string bin_dir = "build/release/bin";
  std::vector<int> agents;
};

struct Phase {
  double wall_s = 0;
  double cpu_s = 0;  // launcherd's
};

struct Measured {
  int agents = 0;
  int ranks = 0;
  int relays = 0;
  Phase connect{};
  Phase start{};
  Phase exits{};
  Phase kill{};
  Phase back{};
  double idle_cpu = 0;  // of one processor
  double idle_mib = 0;
  double job_mib = 0;
  double peak_mib = 0;
  int cuts = 0;
};

double seconds(Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

// launcherd inherits the limit; it and this process have a connection an agent.
base::Status allow_descriptors(int agents) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return base::errno_error(errno, "read the limit of open files");
  limit.rlim_cur = limit.rlim_max;
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return base::errno_error(errno, "raise the limit of open files");
  const auto needed = static_cast<rlim_t>(agents + kOtherDescriptors);
  if (limit.rlim_cur >= needed) return base::ok_status();
  return base::error(base::Code::kResourceExhausted, "{} agents need {} open files, {} are allowed: raise ulimit -Hn",
                     agents, needed, limit.rlim_cur);
}

base::Status write_files(const std::string& directory, const v1::PoolState& state, int slots) {
  MUSTER_RETURN_IF_ERROR(base::make_private_directory(directory));
  MUSTER_RETURN_IF_ERROR(base::make_private_directory(directory + "/state"));
  MUSTER_RETURN_IF_ERROR(base::write_file_atomically(directory + "/state/agents", state.SerializeAsString()));
  std::string hosts;
  for (const v1::PoolAgent& agent : state.agents()) hosts += fmt::format("{} slots={}\n", agent.name(), slots);
  return base::write_file_atomically(directory + "/hosts", hosts);
}

v1::SubmitRequest job_of(int ranks) {
  v1::SubmitRequest request;
  v1::JobSpec& spec = *request.mutable_spec();
  spec.add_command("true");
  spec.set_working_directory("/");
  spec.set_size(ranks);
  spec.mutable_start_timeout()->set_seconds(kLongPatience.count());
  spec.mutable_timeout()->set_seconds(kLongPatience.count());
  return request;
}

struct Moment {
  Clock::time_point time;
  double cpu_s = 0;  // launcherd's until then
};

base::Result<Moment> now_of(const LauncherdProcess& launcherd) {
  MUSTER_ASSIGN_OR_RETURN(const double cpu_s, launcherd.cpu_seconds());
  return Moment{.time = Clock::now(), .cpu_s = cpu_s};
}

Phase phase(const Moment& begin, const Moment& end) {
  return {.wall_s = seconds(end.time - begin.time), .cpu_s = end.cpu_s - begin.cpu_s};
}

// From the job's events. `reason`: of the last state.
struct Progress {
  base::Result<Moment> running = not_seen();
  base::Result<Moment> ended = not_seen();
  int exit_code = 0;
  std::string reason;

  static base::Status not_seen() { return {base::Code::kAborted, "it has not happened"}; }
};

base::Status run_job(const LauncherdProcess& launcherd, launcherd::ApiClient& client, SimulatedAgents& agents,
                     Measured& measured) {
  MUSTER_ASSIGN_OR_RETURN(const Moment begin, now_of(launcherd));
  Clock::time_point due;
  MUSTER_ASSIGN_OR_RETURN(const v1::SubmitResponse submitted, client.submit(job_of(measured.ranks), kPatience));
  v1::WatchRequest watch;
  watch.set_job(submitted.job_id());
  Progress progress;
  MUSTER_RETURN_IF_ERROR(client.watch(watch, [&](const v1::Event& event) {
    if (event.has_job_state_changed()) {
      progress.reason = event.job_state_changed().reason();
      if (event.job_state_changed().state() == v1::JOB_STATE_RUNNING) {
        progress.running = now_of(launcherd);
        due = agents.end_ranks();
      }
    } else if (event.has_job_ended()) {
      progress.ended = now_of(launcherd);
      progress.exit_code = event.job_ended().exit_code();
    }
    return true;
  }));
  if (!progress.running.ok() || !progress.ended.ok() || progress.exit_code != 0) {
    return base::error(base::Code::kAborted, "the job did not run and end well (exit code {}): {}", progress.exit_code,
                       progress.reason);
  }
  measured.start = phase(begin, *progress.running);
  measured.exits = phase({.time = due, .cpu_s = progress.running->cpu_s}, *progress.ended);
  return base::ok_status();
}

base::Status kill_job(const LauncherdProcess& launcherd, const launcherd::LauncherAddress& address,
                      Measured& measured) {
  launcherd::ApiClient client(address);
  launcherd::ApiClient killer(address);  // `client` watches meanwhile
  MUSTER_ASSIGN_OR_RETURN(const v1::SubmitResponse submitted, client.submit(job_of(measured.ranks), kPatience));
  v1::WatchRequest watch;
  watch.set_job(submitted.job_id());
  v1::KillRequest kill;
  kill.set_job(submitted.job_id());
  base::Result<Moment> begin = Progress::not_seen();
  base::Result<Moment> end = Progress::not_seen();
  base::Status killed;
  MUSTER_RETURN_IF_ERROR(client.watch(watch, [&](const v1::Event& event) {
    if (event.has_job_state_changed() && event.job_state_changed().state() == v1::JOB_STATE_RUNNING) {
      begin = now_of(launcherd);
      killed = killer.kill(kill, kPatience);
    }
    if (event.has_job_ended()) end = now_of(launcherd);
    return killed.ok();
  }));
  MUSTER_RETURN_IF_ERROR(killed);
  if (!begin.ok()) return begin.status();
  if (!end.ok()) return end.status();
  measured.kill = phase(*begin, *end);
  return base::ok_status();
}

base::Status expect_metrics(const LauncherdProcess& launcherd, const std::vector<std::pair<std::string, int>>& all) {
  MUSTER_ASSIGN_OR_RETURN(const std::string metrics, launcherd.metrics_blocking());
  for (const auto& [name, expected] : all) {
    MUSTER_ASSIGN_OR_RETURN(const long value, metric_of(metrics, name));
    if (value == expected) continue;
    return base::error(base::Code::kInternal, "/metrics says {} {}, and it is {}", name, value, expected);
  }
  return base::ok_status();
}

// Returns the share of one processor that launcherd uses while nothing happens but pings.
base::Result<double> idle_cpu_blocking(const LauncherdProcess& launcherd) {
  std::this_thread::sleep_for(kSettleTime);
  MUSTER_ASSIGN_OR_RETURN(const Moment begin, now_of(launcherd));
  std::this_thread::sleep_for(kIdleTime);
  MUSTER_ASSIGN_OR_RETURN(const Moment end, now_of(launcherd));
  const Phase idle = phase(begin, end);
  return idle.cpu_s / idle.wall_s;
}

base::Result<Measured> measure(const Options& options, const std::string& directory, int agents) {
  Measured measured{
      .agents = agents, .ranks = agents * options.ranks, .relays = launcherd::relays_among(agents, options.fanout)};
  MUSTER_RETURN_IF_ERROR(allow_descriptors(agents));
  MUSTER_ASSIGN_OR_RETURN(const v1::PoolState state, pool_state(agents));
  MUSTER_RETURN_IF_ERROR(write_files(directory, state, options.ranks));
  MUSTER_ASSIGN_OR_RETURN(auto launcherd, LauncherdProcess::start(options.bin_dir + "/launcherd", directory));
  MUSTER_ASSIGN_OR_RETURN(const Moment begin, now_of(*launcherd));
  MUSTER_ASSIGN_OR_RETURN(const auto simulated, SimulatedAgents::start(state, options.dialling, measured.relays));
  MUSTER_RETURN_IF_ERROR(simulated->wait_until_welcome_blocking(kLongPatience));
  MUSTER_ASSIGN_OR_RETURN(const Moment connected, now_of(*launcherd));
  measured.connect = phase(begin, connected);
  MUSTER_RETURN_IF_ERROR(expect_metrics(*launcherd, {{"muster_agents{state=\"up\"}", agents}}));
  MUSTER_ASSIGN_OR_RETURN(measured.idle_cpu, idle_cpu_blocking(*launcherd));
  MUSTER_ASSIGN_OR_RETURN(measured.idle_mib, launcherd->memory_mib("VmRSS"));
  MUSTER_ASSIGN_OR_RETURN(const launcherd::LauncherAddress address,
                          launcherd::parse_launcher_address("unix:" + directory + "/sock"));
  launcherd::ApiClient client(address);
  MUSTER_RETURN_IF_ERROR(run_job(*launcherd, client, *simulated, measured));
  MUSTER_ASSIGN_OR_RETURN(measured.job_mib, launcherd->memory_mib("VmRSS"));
  MUSTER_ASSIGN_OR_RETURN(measured.peak_mib, launcherd->memory_mib("VmHWM"));
  MUSTER_RETURN_IF_ERROR(expect_metrics(*launcherd, {{"muster_agents{state=\"up\"}", agents},
                                                     {"muster_jobs_submitted_total", 1},
                                                     {"muster_jobs_ended_total{state=\"succeeded\"}", 1},
                                                     {"muster_rank_exits_total{result=\"ok\"}", measured.ranks},
                                                     {"muster_rank_exits_total{result=\"other\"}", 0}}));
  measured.cuts = simulated->cuts();
  MUSTER_RETURN_IF_ERROR(kill_job(*launcherd, address, measured));
  launcherd.reset();  // by SIGKILL
  MUSTER_ASSIGN_OR_RETURN(launcherd, LauncherdProcess::start(options.bin_dir + "/launcherd", directory));
  MUSTER_ASSIGN_OR_RETURN(const Moment again, now_of(*launcherd));
  MUSTER_RETURN_IF_ERROR(simulated->wait_until_back_blocking(kLongPatience));
  MUSTER_ASSIGN_OR_RETURN(const Moment back, now_of(*launcherd));
  measured.back = phase(again, back);
  return measured;
}

void print_head(const Options& options) {
  if (options.is_json) return;
  fmt::print("Seconds are wall time (launcherd's processor time); memory is launcherd's, in MiB.\n\n");
  fmt::print(
      "| agents | relays |  ranks |     connected |       started |         exits |          kill |          back | "
      "idle CPU "
      "| RSS idle | after the job | peak | cuts |\n");
  fmt::print(
      "|--------|--------|--------|---------------|---------------|---------------|---------------|---------------|----"
      "------"
      "|----------|---------------|------|------|\n");
}

// At once: what comes after it may take minutes, or fail.
void print_row(const Options& options, const Measured& one) {
  if (options.is_json) {
    fmt::print(
        "{{\"bench\":\"agent_sim\",\"agents\":{},\"relays\":{},\"ranks\":{},\"connect_s\":{:.3f},\"connect_cpu_s\":{:."
        "2f},"
        "\"start_s\":{:.3f},\"start_cpu_s\":{:.2f},\"exits_s\":{:.3f},\"exits_cpu_s\":{:.2f},\"kill_s\":{:.3f},\"kill_"
        "cpu_s\":{:.2f},"
        "\"back_s\":{:.3f},\"back_cpu_s\":{:.2f},\"idle_cpu\":{:.3f},"
        "\"rss_idle_mib\":{:.1f},\"rss_job_mib\":{:.1f},\"rss_peak_mib\":{:.1f},\"cuts\":{}}}\n",
        one.agents, one.relays, one.ranks, one.connect.wall_s, one.connect.cpu_s, one.start.wall_s, one.start.cpu_s,
        one.exits.wall_s, one.exits.cpu_s, one.kill.wall_s, one.kill.cpu_s, one.back.wall_s, one.back.cpu_s,
        one.idle_cpu, one.idle_mib, one.job_mib, one.peak_mib, one.cuts);
  } else {
    const auto shown = [](const Phase& phase) { return fmt::format("{:.2f} ({:.2f})", phase.wall_s, phase.cpu_s); };
    fmt::print(
        "| {:>6} | {:>6} | {:>6} | {:>13} | {:>13} | {:>13} | {:>13} | {:>13} | {:>6.1f} % | {:>8.0f} | {:>13.0f} | "
        "{:>4.0f} | {:>4} |\n",
        one.agents, one.relays, one.ranks, shown(one.connect), shown(one.start), shown(one.exits), shown(one.kill),
        shown(one.back), 100 * one.idle_cpu, one.idle_mib, one.job_mib, one.peak_mib, one.cuts);
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
    } else if (word == "--bin-dir" && i + 1 < argc) {
      options.bin_dir = argv[++i];
    } else if (word == "--fanout" && i + 1 < argc) {
      const auto number = base::parse_decimal(argv[++i], 1'000'000);
      if (!number) return std::nullopt;
      options.fanout = static_cast<int>(*number);
    } else if ((word == "--ranks" || word == "--dialling") && i + 1 < argc) {
      const auto number = base::parse_decimal(argv[++i], 1'000'000);
      if (!number || *number == 0) return std::nullopt;
      (word == "--ranks" ? options.ranks : options.dialling) = static_cast<int>(*number);
    } else if (const auto agents = base::parse_decimal(word, 100'000); agents && *agents > 0) {
      options.agents.push_back(static_cast<int>(*agents));
    } else {
      return std::nullopt;
    }
  }
  if (options.agents.empty()) options.agents = {100, 1'000};
  return options;
}

int run(const Options& options, const std::string& directory) {
  print_head(options);
  for (std::size_t i = 0; i < options.agents.size(); ++i) {
    const int agents = options.agents[i];
    const auto measured = measure(options, fmt::format("{}/{}", directory, i), agents);
    if (!measured.ok()) {
      fmt::print(stderr, "agent_sim, {} agents: {}\n", agents, measured.status().message());
      return 1;
    }
    print_row(options, *measured);
  }
  return 0;
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  const auto options = muster::bench::parse(argc, argv);
  if (!options) {
    fmt::print(stderr, "usage: agent_sim [--json] [--ranks N] [--fanout N] [--dialling N] [--bin-dir DIR] AGENTS…\n");
    return 2;
  }
  ::signal(SIGPIPE, SIG_IGN);
  return muster::bench::run_guarded(
      "agent-sim", [&options](const std::string& directory) { return muster::bench::run(*options, directory); });
}
