// Decides how ranks that speak PMI or PMIx ended, from their calls of MPI_Init, MPI_Finalize and MPI_Abort.
// If a rank ends without MPI_Finalize, its peers hang for ever. Such an end is a failure, whatever the exit code is.
// An MPI_Abort ends the job even if a wrapper around the program goes on.
//
// Owner: the job's session; the servers of both protocols report to it.
// Thread: the loop thread only.
// Order: read everything that a rank sent before it ended, and only then call judge().
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/loop.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::agent::inline job {

class MpiEnds {
 public:
  // A rank that calls MPI_Abort normally ends by itself at once. If the rank goes on, this object calls `kill`.
  MpiEnds(base::Loop& loop, std::function<void(int rank)> kill) : loop_(loop), kill_(std::move(kill)) {}

  void connected(int rank);  // at each MPI_Init; a rank that is a script may run another program after finalized()
  // True if the rank has called MPI_Init, and its end has not been judged.
  bool has_connected(int rank) const { return ranks_.contains(rank); }
  void finalized(int rank);
  void aborted(int rank, int code);  // only the first call for a rank counts
  // Call this when the rank's MPI_Comm_spawn was refused. If the rank aborts later, the refusal is the reason. Returns
  // true at the first refusal of the rank.
  bool spawn_refused(int rank) { return !std::exchange(ranks_[rank].is_refused, true); }
  // Call this when the job is being stopped. Aborts that ranks report from then on are consequences and do not count.
  void stopping() { is_stopping_ = true; }

  // Call this when the rank has ended. Completes its RankExited message.
  void judge(v1::RankExited& exited);

 private:
  struct Rank {
    bool is_open = false;  // connected and not finalized
    bool is_refused = false;
    std::optional<int> abort_code = {};
    base::Timer patience = {};
  };

  base::Loop& loop_;
  const std::function<void(int)> kill_;
  std::map<int, Rank> ranks_;
  bool is_stopping_ = false;
};

// Returns one sentence for the user. It says what the program called, and what to do instead.
std::string refused_spawn(int rank);

}  // namespace muster::agent::job
