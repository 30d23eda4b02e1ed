// The ends of ranks and jobs: the two-level outcome of a rank, and the choice of the root cause. Pure.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"

namespace muster::model {

enum class EndKind {
  kExited,       // by itself, with exit_code
  kSignalled,    // by a signal that Muster did not send
  kStartFailed,  // never ran: exit_code 125, 126 or 127, `detail` says why
  kStopped,      // ended after Muster's TERM or KILL
  kHostLost,     // its host did not answer within the lease
};

struct RankEnd {
  int rank = 0;
  std::string host;
  long pid = 0;
  long pid_inside = 0;  // in the rank's own PID namespace; equal to pid without one
  EndKind kind = EndKind::kExited;
  int exit_code = 0;  // kExited, kStartFailed
  int signal = 0;     // kSignalled, kStopped (0 there: it exited by itself after the TERM, see exit_code)
  bool out_of_memory = false;
  std::string detail;  // kStartFailed, kHostLost, kStopped before it ran: one sentence
  // Of a program that speaks PMI or PMIx.
  std::optional<int> abort_code = {};  // kExited: it called MPI_Abort with this
  bool without_finalize = false;       // kExited with 0, after MPI_Init and without MPI_Finalize: a failure
  bool spawn_refused = false;          // with abort_code: after its MPI_Comm_spawn was
  bool at_is_known = true;             // false: told before the agent's clock was compared; `at` is when it came
  base::MonotonicTime at{};  // launcher's monotonic clock: the agent's, corrected by the stream's measured offset

  // 128+signal for a signal; 1 for what has failed with 0.
  int status() const;
  bool failed() const;  // anything but a plain exit 0
};

// What a shell would see of a program that called MPI_Abort(code), but never 0.
int abort_status(int code);

// "called MPI_Abort(13)", "called MPI_Abort(1) after its MPI_Comm_spawn had failed", "ended without MPI_Finalize";
// empty: nothing of MPI's.
std::string describe_mpi(const RankEnd& end);

// The root cause: the earliest end that Muster did not cause and that failed, where a signal goes before a non-zero
// code within 50 ms; -1 when nothing failed by itself. Ties by rank. Index into `ends`.
int root_cause(const std::vector<RankEnd>& ends);

// "exit code 3", "called MPI_Abort(13)", "signal 9 (Killed)", "out of memory: killed by the kernel", …
std::string describe(const RankEnd& end);

// What follows the rank's name in a message to its peers: "was killed by signal 9 (SIGKILL)", "exited with 1", "ran out
// of memory: killed by signal 9 (SIGKILL)", "did not start: …", "was lost with its host n2", "was ended with the job".
std::string describe_to_peers(const RankEnd& end);

// "ranks 0-3,7 ended with signal 15 (Terminated) after the stop; rank 9 ended with exit code 1": the others in one
// line, collapsed; ranks that ended well are left out.
std::string describe_consequences(const std::vector<RankEnd>& ends, int root);

// "0-3,7".
std::string format_rank_list(std::vector<int> ranks);

}  // namespace muster::model
