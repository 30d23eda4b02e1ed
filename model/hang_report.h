// Evidence about ranks, and the report of a job that seems to hang. Plain values; hang_rules.h makes the report.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace muster::model {

// One call of a Python program.
struct PythonCall {
  std::string function{};
  std::string file{};
  int line = 0;  // 0 if unknown

  bool operator==(const PythonCall&) const = default;
};

// The place of a rank in its collective operations of libmuster.
struct CollectivePlace {
  int size = 0;               // of its world
  std::uint64_t begun = 0;    // operations begun since the world was formed
  std::uint64_t ended = 0;    // of these, ended
  std::string operation{};    // the last one begun: "allreduce"
  std::string name{};         // of its tensor; empty if it has none
  std::int64_t since_ms = 0;  // time since it began, or ended
  std::uint64_t beats = 0;    // how often the program has called muster.heartbeat()

  bool is_open() const { return begun > ended; }
};

// The last collective operation in the flight recorder of a rank's PyTorch.
struct TorchCollective {
  std::string group{};         // name of its process group
  std::uint64_t sequence = 0;  // number of the operation in its group
  std::string operation{};     // "nccl:all_reduce"
  std::string state{};         // "scheduled", "started", "completed"

  bool is_open() const { return state != "completed"; }
  bool operator==(const TorchCollective&) const = default;
};

// A finding of NCCL's RAS about a job.
struct NcclFinding {
  std::string text{};        // one phrase, for people
  std::vector<int> ranks{};  // ranks of the job, ascending; empty if NCCL's ranks could not be matched
};

// Evidence about one rank, from two looks at it that are `looked_ms` apart.
struct RankEvidence {
  int rank = 0;
  std::string host{};
  std::int64_t pid = 0;
  bool moving = false;                     // its main thread was at another place at the second look
  std::string state{};                     // of the main thread, as in /proc/PID/stat: R, S, D, T
  std::optional<std::int64_t> state_ms{};  // for how long in this state, as far as the agent has seen
  std::string wait_channel{};              // kernel function in which the main thread waits; empty if unknown
  std::vector<PythonCall> python{};        // of the main thread, innermost first
  std::string native{};                    // innermost named function of the main thread
  std::int64_t cpu_ms = 0;                 // CPU time of the rank and its processes between the looks
  std::int64_t looked_ms = 0;
  std::optional<CollectivePlace> collective{};
  std::string awaits{};  // what a server of the agent has not answered: "the key x in the store"
  std::optional<std::int64_t> awaits_ms{};
  std::string last_line{};                  // of its output
  std::optional<std::int64_t> silent_ms{};  // time since it wrote something; nullopt if it never did
  std::string problem{};                    // why some of this is missing
  bool fully_stopped = false;               // all its threads are stopped by a signal
  std::optional<TorchCollective> torch{};   // nullopt if PyTorch's flight recorder does not answer
  std::string python_source{};              // what read the Python calls if not the agent: "faulthandler", "py-spy"
};

// Ranks that are at the same place.
struct HangClass {
  bool suspect = false;
  std::vector<int> ranks{};  // ascending
  RankEvidence example{};    // of the rank that shows the place best
};

struct HangReport {
  std::int64_t silent_ms = 0;  // time without output and progress
  int generation = 0;
  int size = 0;                             // ranks of the job
  int answered = 0;                         // ranks that were looked at
  std::int64_t looked_ms = 0;               // how long the looks took
  std::string cause{};                      // one phrase: "rank 3 on n2 is not in allreduce "x", …"
  std::vector<HangClass> classes{};         // suspects first, then the fewest ranks first
  std::vector<std::string> silent_hosts{};  // hosts that did not answer
  std::vector<NcclFinding> nccl{};          // empty if no rank uses NCCL, or none answers for it

  bool has_suspects() const { return !classes.empty() && classes.front().suspect; }
};

}  // namespace muster::model
