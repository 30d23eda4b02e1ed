#include "agent/service/gpu_release.h"

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace muster::agent {
namespace {

using gpus::FileGpu;
using gpus::GpuProcess;
using gpus::GpuReport;
using gpus::NvidiaGpu;
using model::GpuVendor;

constexpr std::chrono::milliseconds kLookPeriod{200};
constexpr double kGigabyte = 1e9;

// What is asked here of a GPU of any make.
struct SeenGpu {
  GpuName name;
  std::optional<std::uint64_t> used;
  bool shows_dead = true;
  bool foreign_pids = false;
  const std::vector<GpuProcess>* processes = nullptr;
};

std::vector<SeenGpu> all_of(const GpuReport& report) {
  std::vector<SeenGpu> all;
  for (const NvidiaGpu& gpu : report.gpus) {
    const auto used = gpu.memory_total > 0 ? std::optional(gpu.memory_used) : std::nullopt;
    all.push_back(
        {{GpuVendor::kNvidia, static_cast<int>(all.size())}, used, true, report.foreign_pids, &gpu.processes});
  }
  for (const FileGpu& gpu : report.others) {
    all.push_back({{gpu.is_intel ? GpuVendor::kIntel : GpuVendor::kAmd, gpu.index},
                   gpu.memory_used,
                   gpu.shows_dead,
                   gpu.foreign_pids,
                   &gpu.processes});
  }
  return all;
}

// With foreign numbers nobody can say who lives: then all counts.
std::uint64_t unaccounted(const SeenGpu& gpu, const std::function<bool(pid_t)>& is_gone) {
  std::uint64_t rest = gpu.used.value_or(0);
  for (const GpuProcess& process : *gpu.processes) {
    if (!gpu.foreign_pids && !is_gone(process.pid)) rest -= std::min(rest, process.memory.value_or(0));
  }
  return rest;
}

// Why numbers do not tell who of the job still has memory; empty: they do.
std::string why_not_by_number(const SeenGpu& gpu, bool are_all_numbered) {
  if (gpu.foreign_pids) return "the driver numbers processes as the host does, and the agent is in a container";
  if (!gpu.shows_dead) return "its driver lists processes only while they live";
  return are_all_numbered ? ""
                          : "this kernel does not tell the numbers of all the job's processes outside of their "
                            "PID namespace";
}

std::string text_of(const GpuName& gpu) {
  const char* const make = gpu.first == GpuVendor::kAmd ? "AMD " : gpu.first == GpuVendor::kIntel ? "Intel " : "";
  return fmt::format("{}GPU {}", make, gpu.second);
}

std::string not_known(const std::string& why) {
  return fmt::format("whether the GPUs have released the job's memory is not known: {}", why);
}

}  // namespace

bool has_ended(pid_t pid) {
  return ::kill(pid, 0) != 0 && errno == ESRCH;
}

InUse in_use(const GpuReport& report, const std::function<bool(pid_t)>& is_gone) {
  InUse all;
  for (const SeenGpu& gpu : all_of(report)) {
    if (gpu.used) all[gpu.name] = unaccounted(gpu, is_gone);
  }
  return all;
}

std::vector<HeldMemory> held_memory(const GpuReport& report, const std::map<pid_t, std::string>& pids,
                                    const std::function<bool(pid_t)>& is_gone) {
  std::vector<HeldMemory> held;
  for (const SeenGpu& gpu : all_of(report)) {
    if (gpu.foreign_pids) continue;
    for (const GpuProcess& process : *gpu.processes) {
      if (!pids.contains(process.pid) || !is_gone(process.pid)) continue;
      held.push_back({.gpu = gpu.name, .pid = process.pid, .bytes = process.memory});
    }
  }
  return held;
}

GrownMemory grown_memory(const GpuReport& report, const EndedProcesses& ended,
                         const std::function<bool(pid_t)>& is_gone) {
  GrownMemory grown;
  for (const SeenGpu& gpu : all_of(report)) {
    const std::string why = why_not_by_number(gpu, ended.are_all_numbered);
    if (why.empty()) continue;
    const auto before = ended.before ? ended.before->find(gpu.name) : InUse::const_iterator();
    if (!gpu.used || !ended.before || before == ended.before->end()) {
      // Of a driver that never tells nothing is said: it would be said of every job.
      if (gpu.shows_dead) grown.unknown = why;
      continue;
    }
    const std::uint64_t now = unaccounted(gpu, is_gone);
    if (now <= before->second + kSlack) continue;
    grown.held.push_back({.gpu = gpu.name, .bytes = now - before->second, .why = why});
  }
  return grown;
}

std::string describe(const HeldMemory& held, const std::string& whose) {
  const std::string what =
      held.bytes ? fmt::format("{:.1f} GB", static_cast<double>(*held.bytes) / kGigabyte) : "memory";
  if (held.pid == 0) {
    return fmt::format("{} has {} more in use than before the job, and nobody can say whose it is: {}",
                       text_of(held.gpu), what, held.why);
  }
  return fmt::format("{} still holds {} of {} (pid {}), which has ended", text_of(held.gpu), what, whose, held.pid);
}

void GpuRelease::begin(EndedProcesses ended, Done done) {
  ended_ = std::move(ended);
  done_ = std::move(done);
  held_.clear();
  // Also where the driver has not answered by then.
  deadline_ = loop_.after(patience_, [this] { give_up(); });
  look();
}

void GpuRelease::look() {
  reader_.ask([this, alive = std::weak_ptr<char>(alive_)](const base::Result<GpuReport>& report) {
    if (alive.lock()) judge(report);
  });
}

void GpuRelease::judge(const base::Result<GpuReport>& report) {
  if (!done_) return;  // given up
  if (!report.ok()) return finish({not_known(report.status().message())});
  if (reader_.question().nvidia && report->driver.empty()) return finish({not_known(report->problem)});
  held_ = held_memory(*report, ended_.pids, has_ended);
  GrownMemory grown = grown_memory(*report, ended_, has_ended);
  std::ranges::move(grown.held, std::back_inserter(held_));
  if (held_.empty() && !grown.unknown.empty()) return finish({not_known(grown.unknown)});
  if (held_.empty()) return finish({});
  again_ = loop_.after(kLookPeriod, [this] { look(); });
}

void GpuRelease::give_up() {
  if (held_.empty()) {
    return finish({not_known(
        fmt::format("no answer within {} s", std::chrono::duration_cast<std::chrono::seconds>(patience_).count()))});
  }
  std::vector<std::string> sentences;
  for (const HeldMemory& each : held_) {
    sentences.push_back(describe(each, each.pid == 0 ? "" : ended_.pids.at(each.pid)));
  }
  finish(std::move(sentences));
}

void GpuRelease::finish(std::vector<std::string> sentences) {
  deadline_.cancel();
  again_.cancel();
  if (const Done done = std::exchange(done_, nullptr)) done(sentences);
}

}  // namespace muster::agent
