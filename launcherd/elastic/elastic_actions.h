// The actions of an ElasticDriver, as values. Its owner carries them out in order.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "launcherd/elastic/elastic_plan.h"

namespace muster::launcherd::inline elastic {

// Both clocks at the moment of an input. Notices to workers carry the wall time.
struct ElasticTime {
  base::MonotonicTime now{};
  base::WallTime wall{};
};

// Why a generation began. The first cause wins.
enum class ElasticCause {
  kStart,       // it is the first generation
  kFailure,     // a process failed
  kHostLost,    // a host stopped answering
  kHosts,       // the list of hosts or a limit changed
  kWorkers,     // workers asked for a new world by themselves
  kNewProcess,  // a new process ended before the world was complete
};

struct Generation {
  int number = 0;  // from 0
  ElasticCause cause = ElasticCause::kStart;
  std::string detail{};              // the slot or host that caused it; empty if there is none
  base::MonotonicTime caused_at{};   // the time of the first event that led to this generation
  int old_size = 0;                  // the size of the world before; 0 for the first generation
  ElasticPlan plan{};                // in rank order
  std::vector<std::string> added{};  // hosts that the generation before did not have
  std::vector<std::string> lost{};   // hosts of the generation before that this one does not have
};

// The owner first clears the keys of the job everywhere, including caches and finish counters. Then it starts a process
// for each slot of `to_start`, with the numbers of the slot's plan and the number of the generation. Old processes stay
// as they are; their answers are still held.
struct BeginGeneration {
  Generation generation;
  std::vector<PlannedSlot> to_start;
};

// Answers the held GET /rank_and_size of each slot.
struct SlotAnswer {
  ElasticSlot slot;
  std::optional<SlotPlan> plan;  // nullopt means that the worker is no longer in the job

  bool operator==(const SlotAnswer&) const = default;
};
// Every new process of this generation has made its first PUT. The owner releases the held answers to these PUTs, and
// answers the workers that wait for their numbers.
struct ReleaseAnswers {
  int generation = 0;
  std::vector<SlotAnswer> answers;
};

// The value of HostUpdateResult in every notice. With any other value survivors may skip state.sync(), and then new
// processes wait for them forever (horovod#3494).
inline constexpr int kHostsMixed = 3;

// Tells the process of this slot that the hosts changed. If that fails, the owner calls on_notice_failed().
struct NotifyWorker {
  ElasticSlot slot;
  std::int64_t timestamp = 0;  // seconds since the epoch; each notice of a job has a larger one
};

// Ends the processes of these slots: SIGTERM, then SIGKILL after the job's grace time. The owner reports their ends
// like all others.
struct StopSlots {
  std::vector<ElasticSlot> slots;
  std::string why;
};

enum class ElasticEnd {
  kSucceeded,    // a process ended with 0, and none of its generation failed
  kFailed,       // a process failed, and the job cannot go on
  kAllFailed,    // every process of the generation failed
  kBlacklisted,  // every host of the generation is black-listed
  kResetLimit,
  kTooFewSlots,  // the time limit for the wait for slots is over
  kNoSurvivor,   // no process of the old generation is left that has the state
};

struct FailedSlot {
  ElasticSlot slot;
  int exit_code = 0;  // 128 + signal for signals; 1 for a lost host
};

// The job is over. The owner ends all processes that are left. This is the last action.
struct FinishJob {
  ElasticEnd end = ElasticEnd::kSucceeded;
  std::string message{};                // Horovod's text for users; empty on success
  std::optional<FailedSlot> failure{};  // the first failure of the last generation
};

using ElasticAction = std::variant<BeginGeneration, ReleaseAnswers, NotifyWorker, StopSlots, FinishJob>;

std::string_view name_of(ElasticCause cause);
std::string_view name_of(ElasticEnd end);

}  // namespace muster::launcherd::elastic
