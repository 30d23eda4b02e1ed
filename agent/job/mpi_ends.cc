#include "agent/job/mpi_ends.h"

#include <sys/wait.h>

#include <fmt/format.h>

#include "model/spawn_advice.h"

namespace muster::agent::inline job {
namespace {

// After MPI_Abort a program gets this time to exit by itself: to flush buffers and run atexit handlers. It is short,
// because all other ranks wait for this end.
constexpr std::chrono::milliseconds kAbortPatience{500};

}  // namespace

void MpiEnds::connected(int rank) {
  ranks_[rank].is_open = true;
}

void MpiEnds::finalized(int rank) {
  ranks_[rank].is_open = false;
}

void MpiEnds::aborted(int rank, int code) {
  Rank& aborted = ranks_[rank];
  if (is_stopping_ || aborted.abort_code) return;
  aborted.abort_code = code;
  aborted.patience = loop_.after(kAbortPatience, [this, rank] { kill_(rank); });
}

void MpiEnds::judge(v1::RankExited& exited) {
  const auto known = ranks_.find(exited.rank());
  if (known == ranks_.end()) return;
  if (known->second.abort_code) {
    exited.set_abort_code(*known->second.abort_code);
    exited.set_spawn_refused(known->second.is_refused);
  } else if (known->second.is_open) {
    exited.set_without_finalize(WIFEXITED(exited.wait_status()) && WEXITSTATUS(exited.wait_status()) == 0);
  }
  ranks_.erase(known);
}

std::string refused_spawn(int rank) {
  return fmt::format("rank {} called MPI_Comm_spawn, {}", rank, model::kSpawnAdvice);
}

}  // namespace muster::agent::job
