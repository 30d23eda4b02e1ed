// Knows which ranks of a job on this host are not over yet, and their pids. Plain values.
//
// Owner: SessionRanks.
#pragma once

#include <sys/types.h>

#include <map>
#include <set>
#include <vector>

#include "proto/muster/v1/agent.pb.h"

namespace muster::agent::inline job {

class RunningRanks {
 public:
  // Call these before the first rank of `launch` starts. Otherwise a rank that fails at once would look like the last
  // one. Use add_spawned() for ranks that other ranks have spawned.
  void add(const v1::Launch& launch);
  void add_spawned(const v1::Launch& launch);

  void started(int rank, pid_t pid) { pids_[rank] = pid; }
  // Call this when the rank has ended or could not start. Returns its pid, or 0 if it has never run.
  pid_t over(int rank);

  bool are_all_over() const { return running_.empty(); }
  // True if the rank was added and is not over.
  bool is_running(int rank) const { return running_.contains(rank); }
  // True for a rank that another rank has spawned. libmuster does not count it as a peer.
  bool is_spawned(int rank) const { return spawned_.contains(rank); }
  const std::set<int>& running() const { return running_; }
  const std::map<int, pid_t>& pids() const { return pids_; }
  pid_t pid_of(int rank) const;  // 0 if the rank does not run

 private:
  std::set<int> running_;
  std::set<int> spawned_;
  std::map<int, pid_t> pids_;
};

}  // namespace muster::agent::job
