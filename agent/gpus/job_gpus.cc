#include "agent/gpus/job_gpus.h"

#include <utility>

#include "agent/proc/proc_table.h"
#include "base/strings.h"

namespace muster::agent::inline gpus {

void JobGpus::launch(const std::vector<SpawnRequest>& requests) {
  if (host_.reader == nullptr) return;
  if (launched_at_ == 0) launched_at_ = ticks_since_boot();
  const bool had_any = !with_gpus_.empty();
  for (const SpawnRequest& request : requests) {
    AssignedGpus own;
    own.add(host_.known, masks_in(request.env));
    if (!own.is_any()) continue;
    with_gpus_.insert(request.rank);
    assigned_.add(own);
  }
  if (!had_any && !with_gpus_.empty()) poll();
}

// The query may run beside the ranks, because a rank needs much longer until it has its first GPU memory.
void JobGpus::poll() {
  if (host_.seen) return learn(*host_.seen);
  host_.reader->ask(gate_.wrap([this](const base::Result<gpus::GpuReport>& report) {
    if (report.ok()) learn(*report);
  }));
}

void JobGpus::learn(const gpus::GpuReport& report) {
  before_ = before_job(see(report, host_.known), has_ended, [this](pid_t pid) { return was_before(pid); });
  if (release_) release_->learn_before(*before_);
}

// An ended process counts as older than the job only until a rank has ended. After that it may be the child of a rank.
bool JobGpus::was_before(pid_t pid) const {
  const auto process = read_process(pid);
  return process ? process->start_time < launched_at_ : on_gpus_.empty();
}

void JobGpus::started(const RankStarted& started, bool in_pidns) {
  if (with_gpus_.contains(started.rank) && in_pidns && started.pid == started.pid_inside) {
    unnumbered_.insert(started.rank);
  }
}

void JobGpus::ended(int rank, pid_t pid) {
  if (pid == 0 || !with_gpus_.contains(rank) || unnumbered_.contains(rank)) return;
  on_gpus_.emplace(pid, fmt::format("rank {}", rank));
}

void JobGpus::await(const std::vector<Leftover>& leftovers, GpuRelease::Done done) {
  if (with_gpus_.empty()) return;
  EndedProcesses ended{.pids = on_gpus_, .are_all_numbered = unnumbered_.empty(), .gpus = assigned_, .before = before_};
  for (const Leftover& leftover : leftovers) {
    ended.are_all_numbered = ended.are_all_numbered && !leftover.is_pid_inside;
    if (!leftover.is_pid_inside) ended.pids.emplace(leftover.pid, base::printable(leftover.command));
  }
  if (ended.pids.empty() && ended.are_all_numbered) return;
  release_ = std::make_unique<GpuRelease>(loop_, *host_.reader, host_.known, host_.problem);
  release_->begin(std::move(ended), std::move(done));
}

}  // namespace muster::agent::gpus
