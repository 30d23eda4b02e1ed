// The GPUs that a job's ranks were given on this host, from the launch to the wait for their memory after the job.
// Where nobody can be asked about GPUs, or no rank was given one, it does nothing.
//
// Owned by the job's session; loop thread only.
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
#include "base/loop.h"

namespace muster::agent::inline gpus {

// What an agent's jobs have in common; outlives them.
struct HostGpus {
  gpus::Reader* reader = nullptr;         // nullptr: there is nobody to ask
  std::vector<model::GpuShape> known{};   // at the agent's start
  std::string problem{};                  // of NVIDIA's library, at that time: the job's user is told
  std::optional<gpus::GpuReport> seen{};  // just before its only job; nullopt: it is to be asked again for each
};

class JobGpus {
 public:
  JobGpus(base::Loop& loop, const HostGpus& host) : loop_(loop), host_(host) {}
  JobGpus(const JobGpus&) = delete;
  JobGpus& operator=(const JobGpus&) = delete;

  // Before the ranks start.
  void launch(const std::vector<SpawnRequest>& requests);
  // `in_pidns`: it runs in a PID namespace of the job.
  void started(const RankStarted& started, bool in_pidns);
  // `pid`: 0 of one that has never run.
  void ended(int rank, pid_t pid);

  // All have ended, and `leftovers` were killed. Where there is something to wait for, `done` comes from the loop,
  // unless give_up() comes before; from within it that may not be called.
  void await(const std::vector<Leftover>& leftovers, GpuRelease::Done done);
  bool is_waiting() const { return release_ != nullptr; }
  void give_up() { release_.reset(); }

 private:
  void look();
  void learn(const gpus::GpuReport& report);
  bool was_before(pid_t pid) const;

  base::Loop& loop_;
  const HostGpus& host_;
  std::uint64_t launched_at_ = 0;  // in ticks since boot
  GivenGpus given_;
  std::set<int> with_gpus_;               // ranks
  std::set<int> unnumbered_;              // of them, those whose number outside of their PID namespace is not known
  std::map<pid_t, std::string> on_gpus_;  // of them, those that have ended, by what a user calls them
  std::optional<GpusBefore> before_;
  std::unique_ptr<GpuRelease> release_;  // under way
  const std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace muster::agent::gpus
