// The whole of GpuRelease, and the pure functions that compare reports. Read see(), held_memory() and grown_memory()
// first.
// Then read GpuRelease::begin(), poll() and judge(), which repeat until nothing is held or the patience ends.

#include "agent/gpus/gpu_release.h"

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <iterator>

namespace muster::agent::inline gpus {
namespace {

using gpus::FileGpu;
using gpus::GpuProcess;
using gpus::GpuReport;
using gpus::MigDevice;
using gpus::NvidiaGpu;
using model::GpuShape;
using model::GpuVendor;

constexpr std::chrono::milliseconds kReleasePollPeriod{200};
constexpr double kGigabyte = 1e9;

std::optional<std::uint64_t> used_of(std::uint64_t used, std::uint64_t total) {
  return total > 0 ? std::optional(used) : std::nullopt;
}

void add(const NvidiaGpu& gpu, const GpuName& name, bool foreign_pids, std::vector<SeenGpu>& seen) {
  SeenGpu whole{.name = name, .foreign_pids = foreign_pids, .processes = gpu.processes};
  if (!gpu.is_divided) {
    whole.used = used_of(gpu.memory_used, gpu.memory_total);
    seen.push_back(std::move(whole));
    return;
  }
  std::erase_if(whole.processes, [&](const GpuProcess& process) {
    return std::ranges::any_of(gpu.parts, [&](const MigDevice& part) {
      return std::ranges::find(part.processes, process.pid, &GpuProcess::pid) != part.processes.end();
    });
  });
  seen.push_back(std::move(whole));
  for (const MigDevice& part : gpu.parts) {
    seen.push_back({.name = part_of(name, part.uuid),
                    .used = used_of(part.memory_used, part.memory_total),
                    .foreign_pids = foreign_pids,
                    .processes = part.processes});
  }
}

// If the pids are of another namespace, it is unknown which processes live. Then all memory counts.
std::uint64_t unaccounted(const SeenGpu& gpu, const std::function<bool(pid_t)>& is_gone) {
  std::uint64_t rest = gpu.used.value_or(0);
  for (const GpuProcess& process : gpu.processes) {
    if (!gpu.foreign_pids && !is_gone(process.pid)) rest -= std::min(rest, process.memory.value_or(0));
  }
  return rest;
}

std::optional<std::uint64_t> used_before(const GpuName& name, const std::optional<GpusBefore>& before) {
  if (!before) return std::nullopt;
  const auto found = before->in_use.find(name);
  return found == before->in_use.end() ? std::nullopt : std::optional(found->second);
}

// Returns why pids do not show which processes of the job still have memory. Empty if they do.
std::string why_not_by_number(const SeenGpu& gpu, bool are_all_numbered) {
  if (gpu.foreign_pids) return "the driver reports the host's process IDs, but the agent runs in a container";
  if (!gpu.shows_dead) return "its driver lists processes only while they live";
  return are_all_numbered
             ? ""
             : "this kernel does not report the IDs that all the job's processes have outside of their PID namespace";
}

std::string not_known(const std::string& why) {
  return fmt::format("unknown whether the GPUs have released the job's memory: {}", why);
}

// Returns true if the report lacks a GPU on which the job had memory.
bool has_lost_any(const std::vector<GpuShape>& known, const EndedProcesses& ended, const std::vector<SeenGpu>& seen) {
  return std::ranges::any_of(known, [&](const GpuShape& gpu) {
    const GpuName name{.vendor = gpu.vendor, .index = gpu.index};
    return gpu.vendor == GpuVendor::kNvidia && ended.gpus.has(name) &&
           std::ranges::find(seen, name, &SeenGpu::name) == seen.end();
  });
}

}  // namespace

bool has_ended(pid_t pid) {
  return ::kill(pid, 0) != 0 && errno == ESRCH;
}

std::vector<SeenGpu> see(const GpuReport& report, const std::vector<GpuShape>& known) {
  std::vector<SeenGpu> seen;
  for (std::size_t i = 0; i < report.gpus.size(); ++i) {
    add(report.gpus[i], name_of(report.gpus[i], i, known), report.foreign_pids, seen);
  }
  for (const FileGpu& gpu : report.others) {
    seen.push_back({.name = name_of(gpu, report.others, known),
                    .used = gpu.memory_used,
                    .shows_dead = gpu.shows_dead,
                    .foreign_pids = gpu.foreign_pids,
                    .processes = gpu.processes});
  }
  return seen;
}

GpusBefore before_job(const std::vector<SeenGpu>& seen, const std::function<bool(pid_t)>& is_gone,
                      const std::function<bool(pid_t)>& is_others) {
  GpusBefore before;
  for (const SeenGpu& gpu : seen) {
    if (gpu.used) before.in_use[gpu.name] = unaccounted(gpu, is_gone);
    for (const GpuProcess& process : gpu.processes) {
      if (!gpu.foreign_pids && is_others(process.pid)) before.others.emplace(gpu.name, process.pid);
    }
  }
  return before;
}

std::vector<HeldMemory> held_memory(const std::vector<SeenGpu>& seen, const EndedProcesses& ended,
                                    const std::function<bool(pid_t)>& is_gone) {
  std::vector<HeldMemory> held;
  for (const SeenGpu& gpu : seen) {
    if (gpu.foreign_pids) continue;
    const bool is_assigned = gpu.shows_dead && ended.gpus.has(gpu.name);
    for (const GpuProcess& process : gpu.processes) {
      const auto known = ended.pids.find(process.pid);
      const bool is_of_job = known != ended.pids.end();
      const bool is_others = ended.before && ended.before->others.contains({gpu.name, process.pid});
      if ((!is_of_job && (!is_assigned || is_others)) || !is_gone(process.pid)) continue;
      held.push_back({.gpu = gpu.name,
                      .pid = process.pid,
                      .bytes = process.memory,
                      .whose = is_of_job ? known->second : std::string()});
    }
  }
  return held;
}

GrownMemory grown_memory(const std::vector<SeenGpu>& seen, const EndedProcesses& ended,
                         const std::function<bool(pid_t)>& is_gone) {
  GrownMemory grown;
  for (const SeenGpu& gpu : seen) {
    const std::string why = why_not_by_number(gpu, ended.are_all_numbered);
    if (why.empty() || !ended.gpus.has(gpu.name)) continue;
    const auto before = used_before(gpu.name, ended.before);
    if (!gpu.used || !before) {
      // If a driver never lists ended processes, do not report that, because the report would come with every job.
      if (gpu.shows_dead) grown.unknown = why;
      continue;
    }
    const std::uint64_t now = unaccounted(gpu, is_gone);
    if (now <= *before || now - *before <= kSlack) continue;
    grown.held.push_back({.gpu = gpu.name, .bytes = now - *before, .why = why});
  }
  return grown;
}

std::string describe(const HeldMemory& held) {
  const std::string gpu = text_of(held.gpu);
  const std::string what =
      held.bytes ? fmt::format("{:.1f} GB", static_cast<double>(*held.bytes) / kGigabyte) : "memory";
  if (held.pid == 0) {
    return fmt::format("{} has {} more in use than before the job, by an unknown process: {}", gpu, what, held.why);
  }
  if (held.whose.empty()) {
    return fmt::format(
        "{} still holds {} of a process that has ended (pid {}): a child of a rank, if no other job uses that GPU", gpu,
        what, held.pid);
  }
  return fmt::format("{} still holds {} of {} (pid {}), which has ended", gpu, what, held.whose, held.pid);
}

void GpuRelease::begin(EndedProcesses ended, Done done) {
  ended_ = std::move(ended);
  done_ = std::move(done);
  held_.clear();
  // The deadline also ends the wait for a driver that does not answer.
  deadline_ = loop_.after(patience_, [this] { give_up(); });
  poll();
}

// If another caller's query is under way, its answer comes here, too. That answer may describe a time before the job
// had memory.
void GpuRelease::poll() {
  is_stale_ = reader_.is_asking();
  reader_.ask(gate_.wrap([this](const base::Result<GpuReport>& report) { judge(report); }));
}

void GpuRelease::judge(const base::Result<GpuReport>& report) {
  if (!done_) return;  // the wait was given up
  if (!report.ok()) return is_stale_ ? poll() : finish({not_known(report.status().message())});
  const std::vector<SeenGpu> seen = see(*report, known_);
  held_ = held_memory(seen, ended_, has_ended);
  GrownMemory grown = grown_memory(seen, ended_, has_ended);
  std::ranges::move(grown.held, std::back_inserter(held_));
  if (!held_.empty()) {
    again_ = loop_.after(kReleasePollPeriod, [this] { poll(); });
    return;
  }
  if (is_stale_) return poll();
  const std::string problem = grown.unknown.empty() ? new_problem(*report) : grown.unknown;
  finish(problem.empty() ? std::vector<std::string>() : std::vector{not_known(problem)});
}

// Returns why NVIDIA's library reports nothing about a GPU of the job. Empty if it does report, or if the user already
// knows.
std::string GpuRelease::new_problem(const GpuReport& report) const {
  if (!reader_.question().nvidia || !ended_.gpus.has_any_of(GpuVendor::kNvidia)) return {};
  if (report.problem.empty() || report.problem == reported_) return {};
  return report.driver.empty() || has_lost_any(known_, ended_, see(report, known_)) ? report.problem : std::string();
}

void GpuRelease::give_up() {
  if (held_.empty()) {
    return finish({not_known(
        fmt::format("no answer within {} s", std::chrono::duration_cast<std::chrono::seconds>(patience_).count()))});
  }
  std::vector<std::string> sentences;
  for (const HeldMemory& each : held_) sentences.push_back(describe(each));
  finish(std::move(sentences));
}

void GpuRelease::finish(std::vector<std::string> sentences) {
  deadline_.cancel();
  again_.cancel();
  if (const Done done = std::exchange(done_, nullptr)) done(sentences);
}

}  // namespace muster::agent::gpus
