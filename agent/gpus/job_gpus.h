// The GPUs that a job's ranks use on this host, from the launch to the wait for their memory after the job. It does
// nothing if there is no Reader, or if no rank has a GPU.
//
// Owner: the job's session.
// Thread: the loop thread only.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/gpus/gpu_release.h"
#include "agent/launch/spawn_request.h"
#include "agent/process/warden_events.h"
#include "base/gate.h"
#include "base/loop.h"

namespace muster::agent::inline gpus {

// The facts about GPUs that all jobs of an agent share. This object outlives the jobs.
struct HostGpus {
  gpus::Reader* reader = nullptr;        // nullptr if there are no GPUs to ask about
  std::vector<model::GpuShape> known{};  // the host's GPUs at the agent's start
  std::string problem{};  // the problem of NVIDIA's library at that time: one sentence for the job's user
  // The state just before the agent's only job. nullopt means that each job must ask again.
  std::optional<gpus::GpuReport> seen{};
};

class JobGpus {
 public:
  JobGpus(base::Loop& loop, const HostGpus& host) : loop_(loop), host_(host) {}
  JobGpus(const JobGpus&) = delete;
  JobGpus& operator=(const JobGpus&) = delete;

  // Call it before the ranks start, and again before more of them start.
  void launch(const std::vector<SpawnRequest>& requests);
  // `in_pidns` is true if the rank runs in a PID namespace of the job.
  void started(const RankStarted& started, bool in_pidns);
  // `pid` is 0 for a rank that has never run.
  void ended(int rank, pid_t pid);

  // Call it when all ranks have ended and `leftovers` were killed. The loop calls `done` when the memory is released,
  // unless give_up() is called before. Do not call give_up() from within `done`.
  void await(const std::vector<Leftover>& leftovers, GpuRelease::Done done);
  bool is_waiting() const { return release_ != nullptr; }
  void give_up() { release_.reset(); }

 private:
  void poll();
  void learn(const gpus::GpuReport& report);
  bool was_before(pid_t pid) const;

  base::Loop& loop_;
  const HostGpus& host_;
  std::uint64_t launched_at_ = 0;  // in ticks since boot
  AssignedGpus assigned_;
  std::set<int> with_gpus_;  // ranks that have GPUs
  // The ranks of with_gpus_ whose pid outside of their PID namespace is not known.
  std::set<int> unnumbered_;
  // The pids of the ranks of with_gpus_ that have ended, with the name of each for the user.
  std::map<pid_t, std::string> on_gpus_;
  std::optional<GpusBefore> before_;
  std::unique_ptr<GpuRelease> release_;  // set during the wait
  base::Gate gate_;
};

}  // namespace muster::agent::gpus
