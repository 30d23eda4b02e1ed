// How ranks that speak PMI or PMIx end: what they have said of themselves (MPI_Init, MPI_Finalize, MPI_Abort) becomes
// part of their end. Peers of a rank that ended without MPI_Finalize hang for ever, so such an end is a failure,
// whatever the exit code is; and an MPI_Abort ends the job although a wrapper around the program goes on.
//
// Loop thread only; owned by the job's session. Both protocols' servers tell it; what a rank has sent before it ended
// must be read before judge().
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
  // A rank that has aborted ends by itself, normally at once. `kill` is called for one that does not.
  MpiEnds(base::Loop& loop, std::function<void(int rank)> kill) : loop_(loop), kill_(std::move(kill)) {}

  void connected(int rank);  // MPI_Init; again after finalized(): a wrapper's second program
  void finalized(int rank);
  void aborted(int rank, int code);  // the first one counts
  // Its MPI_Comm_spawn, which is why it aborts, if it does.
  // Whether that was its first one.
  bool spawn_refused(int rank) { return !std::exchange(ranks_[rank].is_refused, true); }
  // The job is being stopped: what ranks say of it then is a consequence.
  void stopping() { is_stopping_ = true; }

  // Has ended: completes its message.
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

// One sentence, for the user: what he has called, and what to do instead.
std::string refused_spawn(int rank);

}  // namespace muster::agent::job
