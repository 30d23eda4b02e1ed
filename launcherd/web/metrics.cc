// The metrics: first the text format, then one function for each group, then format_metrics.
// Read format_metrics at the end first.
#include "launcherd/web/metrics.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace muster::launcherd::inline web {
namespace {

constexpr std::int64_t kMib = 1024 * 1024;
constexpr double kPercent = 100;

// Writes whole numbers without a point or an exponent.
std::string number(double value) {
  const auto whole = static_cast<std::int64_t>(value);
  return static_cast<double>(whole) == value ? std::to_string(whole) : fmt::format("{}", value);
}

// Escapes a label's value: backslash, quote and newline, as the format requires.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '\n') {
      result += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') result += '\\';
    result += c;
  }
  return result;
}

void begin(std::string& text, std::string_view name, std::string_view help, std::string_view type = "gauge") {
  text += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

template <typename Enum>
struct Named {
  Enum value;
  std::string_view word;
};

constexpr std::array<Named<v1::AgentState>, 5> kAgents{{{v1::AGENT_STATE_NONE, "none"},
                                                        {v1::AGENT_STATE_STARTING, "starting"},
                                                        {v1::AGENT_STATE_UP, "up"},
                                                        {v1::AGENT_STATE_SUSPECT, "suspect"},
                                                        {v1::AGENT_STATE_FAILED, "failed"}}};

void add_jobs(std::string& text, const JobCounters& counters) {
  begin(text, "muster_jobs", "Jobs that have not ended, by state.");
  text += fmt::format("muster_jobs{{state=\"queued\"}} {}\n", counters.queued);
  text += fmt::format("muster_jobs{{state=\"starting\"}} {}\n", counters.starting);
  text += fmt::format("muster_jobs{{state=\"running\"}} {}\n", counters.running);
  text += fmt::format("muster_jobs{{state=\"stopping\"}} {}\n", counters.stopping);
  begin(text, "muster_jobs_held", "Queued jobs that wait for their release.");
  text += fmt::format("muster_jobs_held {}\n", counters.held);
  begin(text, "muster_ranks", "Ranks of jobs that have started and not ended.");
  text += fmt::format("muster_ranks {}\n", counters.ranks);
}

// Labels have hosts and no jobs, because a database of metrics keeps each new label for ever.
void add_late_hosts(std::string& text, const v1::ListJobsResponse& jobs) {
  begin(text, "muster_host_late_ratio",
        "Share of the compared steps in which a rank came last, for the latest rank of each host that has one.");
  std::map<std::string, double> latest;
  for (const v1::Job& job : jobs.jobs()) {
    for (const v1::RankLateness& late : job.late()) {
      if (late.operations() == 0) continue;
      double& ratio = latest[late.host()];
      ratio = std::max(ratio, static_cast<double>(late.late()) / static_cast<double>(late.operations()));
    }
  }
  for (const auto& [host, ratio] : latest) {
    text += fmt::format("muster_host_late_ratio{{host=\"{}\"}} {:.3f}\n", escaped(host), ratio);
  }
}

std::string_view vendor_word(v1::GpuVendor vendor) {
  return vendor == v1::GPU_VENDOR_AMD ? "amd" : vendor == v1::GPU_VENDOR_INTEL ? "intel" : "nvidia";
}

// `gpu` is the number of the GPU among those of its vendor.
std::string gpu_labels(const v1::LauncherHost& host, v1::GpuVendor vendor, int index) {
  return fmt::format("{{host=\"{}\",vendor=\"{}\",gpu=\"{}\"}}", escaped(host.name()), vendor_word(vendor), index);
}

void add_gpus(std::string& text, const v1::ListHostsResponse& hosts) {
  const auto each_load = [&](std::string_view name, std::string_view help, auto value_of) {
    begin(text, name, help);
    for (const v1::LauncherHost& host : hosts.hosts()) {
      for (const v1::GpuLoad& gpu : host.load().gpus()) {
        const std::optional<double> value = value_of(gpu);
        if (value) text += fmt::format("{}{} {}\n", name, gpu_labels(host, gpu.vendor(), gpu.index()), number(*value));
      }
    }
  };
  using Value = std::optional<double>;
  each_load("muster_gpu_busy_ratio", "How busy a GPU is, from 0 to 1, if its driver reports it.",
            [](const v1::GpuLoad& gpu) { return gpu.busy_unknown() ? Value() : Value(gpu.busy_percent() / kPercent); });
  each_load("muster_gpu_memory_used_bytes", "Used memory of a GPU, if its driver reports it.",
            [](const v1::GpuLoad& gpu) {
              return gpu.has_memory_used_mib() ? Value(static_cast<double>(gpu.memory_used_mib() * kMib)) : Value();
            });
  each_load("muster_gpu_processes",
            "Processes that use a GPU, if its driver reports them; for NVIDIA only compute processes.",
            [](const v1::GpuLoad& gpu) { return gpu.has_processes() ? Value(gpu.processes()) : Value(); });
  begin(text, "muster_gpu_memory_bytes", "Memory of a GPU, if its driver reports it.");
  for (const v1::LauncherHost& host : hosts.hosts()) {
    for (const v1::Gpu& gpu : host.gpus()) {
      if (gpu.memory_mib() == 0) continue;
      text += fmt::format("muster_gpu_memory_bytes{} {}\n", gpu_labels(host, gpu.vendor(), gpu.index()),
                          gpu.memory_mib() * kMib);
    }
  }
}

// Adds the load that agents have reported. Leaves out hosts without a report.
void add_loads(std::string& text, const v1::ListHostsResponse& hosts) {
  begin(text, "muster_host_cpu_busy_ratio", "How busy all CPUs of the host are, from 0 to 1.");
  for (const v1::LauncherHost& host : hosts.hosts()) {
    if (!host.load().has_cpu_percent()) continue;
    text += fmt::format("muster_host_cpu_busy_ratio{{host=\"{}\"}} {}\n", escaped(host.name()),
                        number(host.load().cpu_percent() / kPercent));
  }
  begin(text, "muster_host_memory_bytes", "Memory of the host.");
  for (const v1::LauncherHost& host : hosts.hosts()) {
    if (host.memory_mib() == 0) continue;
    text += fmt::format("muster_host_memory_bytes{{host=\"{}\"}} {}\n", escaped(host.name()), host.memory_mib() * kMib);
  }
  begin(text, "muster_host_memory_used_bytes", "Used memory of the host.");
  for (const v1::LauncherHost& host : hosts.hosts()) {
    if (!host.load().has_memory_used_mib()) continue;
    text += fmt::format("muster_host_memory_used_bytes{{host=\"{}\"}} {}\n", escaped(host.name()),
                        host.load().memory_used_mib() * kMib);
  }
  add_gpus(text, hosts);
  begin(text, "muster_host_output_bytes_total", "Bytes of output from ranks on the host since launcherd started.",
        "counter");
  for (const v1::LauncherHost& host : hosts.hosts()) {
    text +=
        fmt::format("muster_host_output_bytes_total{{host=\"{}\"}} {}\n", escaped(host.name()), host.output_bytes());
  }
}

void add_hosts(std::string& text, const v1::ListHostsResponse& hosts) {
  begin(text, "muster_agents", "Hosts by the state of their agent.");
  for (const auto& agent : kAgents) {
    int count = 0;
    for (const v1::LauncherHost& host : hosts.hosts()) count += host.agent() == agent.value ? 1 : 0;
    text += fmt::format("muster_agents{{state=\"{}\"}} {}\n", agent.word, count);
  }
  const auto each = [&](std::string_view name, std::string_view help, auto value_of) {
    begin(text, name, help);
    for (const v1::LauncherHost& host : hosts.hosts()) {
      text += fmt::format("{}{{host=\"{}\"}} {}\n", name, escaped(host.name()), value_of(host));
    }
  };
  each("muster_host_slots", "Slots of the host.", [](const v1::LauncherHost& host) { return host.slots(); });
  each("muster_host_used_slots", "Slots that jobs use.",
       [](const v1::LauncherHost& host) { return host.used_slots(); });
  each("muster_host_jobs", "Jobs that have ranks on the host.",
       [](const v1::LauncherHost& host) { return host.jobs(); });
  each("muster_host_drained", "1 if no new job gets the host.",
       [](const v1::LauncherHost& host) { return host.drained() ? 1 : 0; });
  each("muster_host_gpu_problem", "1 if the host's GPUs may be unknown; muster hosts shows the reason.",
       [](const v1::LauncherHost& host) { return host.gpu_problem().empty() ? 0 : 1; });
  add_loads(text, hosts);
}

void add_counters(std::string& text, const JobCounters& counters) {
  begin(text, "muster_jobs_submitted_total", "Jobs accepted since launcherd started.", "counter");
  text += fmt::format("muster_jobs_submitted_total {}\n", counters.submitted);
  begin(text, "muster_jobs_ended_total", "Jobs that have ended since launcherd started, by state.", "counter");
  text += fmt::format("muster_jobs_ended_total{{state=\"succeeded\"}} {}\n", counters.jobs_succeeded);
  text += fmt::format("muster_jobs_ended_total{{state=\"failed\"}} {}\n", counters.jobs_failed);
  text += fmt::format("muster_jobs_ended_total{{state=\"killed\"}} {}\n", counters.jobs_killed);
  text += fmt::format("muster_jobs_ended_total{{state=\"lost\"}} {}\n", counters.jobs_lost);
  begin(text, "muster_rank_exits_total", "Ranks that have ended since launcherd started.", "counter");
  text += fmt::format("muster_rank_exits_total{{result=\"ok\"}} {}\n", counters.rank_exits_ok);
  text += fmt::format("muster_rank_exits_total{{result=\"other\"}} {}\n", counters.rank_exits_failed);
}

void add_histogram(std::string& text, std::string_view name, std::string_view help, const DurationHistogram& times) {
  begin(text, name, help, "histogram");
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < DurationHistogram::kBounds.size(); ++i) {
    below += times.counts[i];
    text += fmt::format("{}_bucket{{le=\"{}\"}} {}\n", name, number(DurationHistogram::kBounds[i]), below);
  }
  below += times.counts.back();
  text += fmt::format("{}_bucket{{le=\"+Inf\"}} {}\n{}_sum {:.6f}\n{}_count {}\n", name, below, name, times.sum, name,
                      below);
}

void add_times(std::string& text, const JobCounters& counters) {
  add_histogram(text, "muster_job_queue_wait_seconds", "Time from the submission of a job until it got slots.",
                counters.queue_wait);
  add_histogram(text, "muster_job_start_seconds", "Time from getting slots until all ranks of a job had started.",
                counters.start_time);
  add_histogram(text, "muster_job_run_seconds", "Time from the start of all ranks of a job until its end.",
                counters.run_time);
}

void add_elastic(std::string& text, const v1::ListJobsResponse& jobs, const JobCounters& counters) {
  begin(text, "muster_elastic_jobs", "Jobs that have had more than one generation and have not ended.");
  const auto later = std::ranges::count_if(jobs.jobs(), [](const v1::Job& job) { return job.attempt() > 0; });
  text += fmt::format("muster_elastic_jobs {}\n", later);
  begin(text, "muster_elastic_resets_total", "Jobs that went on in another generation since launcherd started.",
        "counter");
  text += fmt::format("muster_elastic_resets_total{{reason=\"failure\"}} {}\n", counters.generations_after_failure);
  text += fmt::format("muster_elastic_resets_total{{reason=\"host\"}} {}\n", counters.generations_after_lost_host);
  text += fmt::format("muster_elastic_resets_total{{reason=\"resize\"}} {}\n", counters.generations_after_resize);
  text +=
      fmt::format("muster_elastic_resets_total{{reason=\"preemption\"}} {}\n", counters.generations_after_preemption);
  text += fmt::format("muster_elastic_resets_total{{reason=\"growth\"}} {}\n", counters.generations_after_growth);
  begin(text, "muster_elastic_reset_seconds",
        "Time from a failure or a resize until all ranks of the new generation had started.", "summary");
  text += fmt::format("muster_elastic_reset_seconds_sum {:.3f}\nmuster_elastic_reset_seconds_count {}\n",
                      counters.change_seconds, counters.changes_timed);
  begin(text, "muster_elastic_last_reset_seconds",
        "Time from the newest failure or resize until all ranks of the new generation had started.");
  text += fmt::format("muster_elastic_last_reset_seconds {:.3f}\n", counters.last_change_seconds);
  begin(text, "muster_elastic_first_collective_seconds",
        "Time from a failure or a resize to the end of the new generation's first collective, if its ranks use "
        "libmuster.",
        "summary");
  text += fmt::format(
      "muster_elastic_first_collective_seconds_sum {:.3f}\nmuster_elastic_first_collective_seconds_count {}\n",
      counters.collective_seconds, counters.collectives_timed);
  begin(text, "muster_elastic_last_first_collective_seconds",
        "Time from the newest failure or resize to the end of the first collective after it.");
  text += fmt::format("muster_elastic_last_first_collective_seconds {:.3f}\n", counters.last_collective_seconds);
}

}  // namespace

std::string format_metrics(const v1::Capabilities& launcher, const v1::ListHostsResponse& hosts,
                           const v1::ListJobsResponse& jobs, const JobCounters& counters) {
  std::string text;
  begin(text, "muster_build_info", "Always 1.");
  text += fmt::format("muster_build_info{{version=\"{}\",build=\"{}\"}} 1\n", escaped(launcher.version()),
                      escaped(launcher.build_id()));
  begin(text, "muster_launcherd_start_time_seconds", "Start time of launcherd in seconds since 1970.");
  text += fmt::format("muster_launcherd_start_time_seconds {}\n", launcher.started().seconds());
  add_jobs(text, counters);
  add_late_hosts(text, jobs);
  add_hosts(text, hosts);
  add_counters(text, counters);
  add_times(text, counters);
  add_elastic(text, jobs, counters);
  return text;
}

}  // namespace muster::launcherd::web
