#include "agent/service/gpu_release.h"

#include <signal.h>

#include <cerrno>
#include <utility>

namespace muster::agent {
namespace {

constexpr std::chrono::milliseconds kLookPeriod{200};

bool has_ended(pid_t pid) {
  return ::kill(pid, 0) != 0 && errno == ESRCH;
}

}  // namespace

std::vector<HeldMemory> held_memory(const gpus::GpuReport& report, const std::map<pid_t, std::string>& pids,
                                    const std::function<bool(pid_t)>& is_gone) {
  std::vector<HeldMemory> held;
  for (std::size_t i = 0; i < report.gpus.size(); ++i) {
    for (const gpus::GpuProcess& process : report.gpus[i].processes) {
      if (!pids.contains(process.pid) || !is_gone(process.pid)) continue;
      held.push_back({.gpu = static_cast<int>(i), .pid = process.pid, .bytes = process.memory});
    }
  }
  return held;
}

std::string describe(const HeldMemory& held, const std::string& whose) {
  constexpr double kGigabyte = 1e9;
  const std::string what =
      held.bytes ? fmt::format("{:.1f} GB", static_cast<double>(*held.bytes) / kGigabyte) : "memory";
  return fmt::format("GPU {} still holds {} of {} (pid {}), which has ended", held.gpu, what, whose, held.pid);
}

void GpuRelease::begin(std::map<pid_t, std::string> pids, Done done) {
  pids_ = std::move(pids);
  done_ = std::move(done);
  held_.clear();
  // Also where the driver has not answered by then.
  deadline_ = loop_.after(patience_, [this] { give_up(); });
  look();
}

void GpuRelease::look() {
  reader_.ask([this, alive = std::weak_ptr<char>(alive_)](const base::Result<gpus::GpuReport>& report) {
    if (alive.lock()) judge(report);
  });
}

void GpuRelease::judge(const base::Result<gpus::GpuReport>& report) {
  if (!done_) return;  // given up
  const std::string problem = !report.ok() ? report.status().message() : report->problem;
  if (!report.ok() || report->driver.empty()) {
    return finish({fmt::format("whether the GPUs have released the job's memory is not known: {}", problem)});
  }
  held_ = held_memory(*report, pids_, has_ended);
  if (held_.empty()) return finish({});
  again_ = loop_.after(kLookPeriod, [this] { look(); });
}

void GpuRelease::give_up() {
  if (held_.empty()) {
    return finish({fmt::format("whether the GPUs have released the job's memory is not known: no answer within {} s",
                               std::chrono::duration_cast<std::chrono::seconds>(patience_).count())});
  }
  std::vector<std::string> sentences;
  for (const HeldMemory& each : held_) sentences.push_back(describe(each, pids_.at(each.pid)));
  finish(std::move(sentences));
}

void GpuRelease::finish(std::vector<std::string> sentences) {
  deadline_.cancel();
  again_.cancel();
  if (const Done done = std::exchange(done_, nullptr)) done(sentences);
}

}  // namespace muster::agent
