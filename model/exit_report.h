// The ends of ranks and jobs: the two-level outcome of a rank, and the choice of the root cause. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"

namespace muster::model {

enum class EndKind {
  kExited,       // ended by itself, with exit_code
  kSignalled,    // ended by a signal that Muster did not send
  kStartFailed,  // never ran; exit_code is 125, 126 or 127, and `detail` has the reason
  kStopped,      // ended after Muster's TERM or KILL
  kHostLost,     // the rank's host did not answer within the lease
};

// Facts about the end of a failed rank, from its host. 0 and empty mean unknown.
struct EndFacts {
  std::int64_t peak_memory_mib = 0;  // the most memory that one process of the rank had resident
  std::int64_t free_memory_mib = 0;  // of the host, or of the rank's cgroup if it has less, just after the end
  std::string program = {};          // absolute path of the program that ran
  std::string core_file = {};        // on the host
  std::string core_note = {};        // without core_file: which program has the core, or why there is none; one phrase
  std::string kernel_line = {};      // the kernel's line about the end, without its time

  bool operator==(const EndFacts&) const = default;
};

struct RankEnd {
  int rank = 0;
  std::string host;
  long pid = 0;
  long pid_inside = 0;  // pid in the rank's own PID namespace; equal to `pid` if it has none
  EndKind kind = EndKind::kExited;
  int exit_code = 0;  // for kExited and kStartFailed
  // For kSignalled and kStopped. 0 in kStopped if the rank exited by itself after the TERM, with exit_code.
  int signal = 0;
  bool out_of_memory = false;
  std::string detail;  // for kStartFailed, kHostLost, and kStopped before it ran: one sentence. For kSignalled: why
                       // Muster counts the rank as failed (--on-hang); empty if another process sent the signal.
  // For programs that use PMI or PMIx.
  std::optional<int> abort_code = {};  // for kExited: the rank called MPI_Abort with this code
  bool without_finalize = false;  // for kExited with 0: the rank called MPI_Init but not MPI_Finalize, so it failed
  bool spawn_refused = false;     // with abort_code: MPI_Abort came after its MPI_Comm_spawn was refused
  bool at_is_known = true;        // false if the agent's clock was not compared yet; `at` is then the time of arrival
  base::MonotonicTime
      at{};             // the launcher's monotonic clock: the agent's time, corrected by the stream's measured offset
  EndFacts facts = {};  // only of a rank that failed

  // Returns 128+signal for a signal, and 1 for a failure with code 0.
  int status() const;
  bool failed() const;  // anything but a plain exit 0
};

// Returns the status that a shell sees of a program that called MPI_Abort(code). It is never 0.
int abort_status(int code);

// Returns text such as "called MPI_Abort(13)", "called MPI_Abort(1) after its MPI_Comm_spawn had failed", "ended
// without MPI_Finalize". Empty if the end has nothing to do with MPI.
std::string describe_mpi(const RankEnd& end);

// Returns the root cause as an index into `ends`; -1 if no rank failed by itself. It is the earliest failed end that
// Muster did not cause. A signal takes precedence over a non-zero code within 50 ms. The lower rank wins ties.
int root_cause(const std::vector<RankEnd>& ends);

// Returns whether a rank exited with kNeverAgain.
bool asks_never_again(const std::vector<RankEnd>& ends);

// Returns text such as "exit code 3", "called MPI_Abort(13)", "signal 9 (Killed)", "out of memory: killed by the
// kernel", …
std::string describe(const RankEnd& end);

// Returns the text after the rank's name in a message to its peers: "was killed by signal 9 (SIGKILL)", "exited with
// 1", "ran out of memory: killed by signal 9 (SIGKILL)", "did not start: …", "was lost with its host n2", "was ended
// with the job".
std::string describe_to_peers(const RankEnd& end);

// Returns the ends of all other ranks as one collapsed line, without ranks that succeeded: "ranks 0-3,7 ended with
// signal 15 (Terminated) after the stop; rank 9 ended with exit code 1".
std::string describe_consequences(const std::vector<RankEnd>& ends, int root);

// Formats ranks as ranges, such as "0-3,7".
std::string format_rank_list(std::vector<int> ranks);
// The same in at most about 80 bytes: "1,3,5 and 997 more".
std::string short_rank_list(const std::vector<int>& ranks);

}  // namespace muster::model
