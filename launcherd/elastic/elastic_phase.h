// The phases of an elastic job as a table: (phase, event) -> next phase. Pure; the table is in elastic_phase.cc and
// nowhere else. ElasticDriver asks the table for every change.
//
// A pair that is not in the table must not happen. If it does, ElasticDriver ignores the event.
// docs/design.md shows the table as a diagram.
#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace muster::launcherd::inline elastic {

enum class ElasticPhase {
  kWaiting,   // too few slots, or a slot of the next plan still has its old process
  kStarting,  // a generation began: new processes start, and all answers are held
  kSettling,  // a process ended while answers were held: others that end now count for the same new plan
  kRunning,   // the world was released, and no slot has reported
  kBarrier,   // a slot asked for new numbers or ended: the others must follow
  kOver,      // final: FinishJob is out
};

enum class ElasticEvent {
  kPlanned,      // the next generation has its slots
  kComplete,     // every new process has made its first PUT
  kProcessLost,  // a process that the new world needs ended
  kSettled,      // the time for further ends is over
  kReported,     // a slot of the plan asked for numbers or ended
  kReset,        // all slots have reported, and the job goes on
  kEnd,          // the job is over
};

// nullopt if the event cannot happen in that phase.
std::optional<ElasticPhase> next_phase(ElasticPhase from, ElasticEvent event);

std::string_view name_of(ElasticPhase phase);
std::string_view name_of(ElasticEvent event);
std::span<const ElasticPhase> all_elastic_phases();
std::span<const ElasticEvent> all_elastic_events();

}  // namespace muster::launcherd::elastic
