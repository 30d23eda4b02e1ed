// The table of an elastic job's phases, and the functions that read it.
#include "launcherd/elastic/elastic_phase.h"

#include <algorithm>
#include <array>

namespace muster::launcherd::inline elastic {
namespace {

using enum ElasticPhase;
using enum ElasticEvent;

struct ElasticPhaseRow {
  ElasticPhase from;
  ElasticEvent event;
  ElasticPhase to;
};

constexpr auto kElasticPhaseTable = std::to_array<ElasticPhaseRow>({
    {kWaiting, kPlanned, kStarting},
    {kWaiting, kEnd, kOver},

    {kStarting, kComplete, kRunning},
    {kStarting, kProcessLost, kSettling},
    {kStarting, kEnd, kOver},

    {kSettling, kProcessLost, kSettling},
    {kSettling, kSettled, kWaiting},
    {kSettling, kEnd, kOver},

    {kRunning, kReported, kBarrier},

    {kBarrier, kReported, kBarrier},
    {kBarrier, kReset, kWaiting},
    {kBarrier, kEnd, kOver},
});

constexpr std::array kElasticPhases = {kWaiting, kStarting, kSettling, kRunning, kBarrier, kOver};
constexpr std::array kElasticPhaseNames = {"waiting", "starting", "settling", "running", "barrier", "over"};
constexpr std::array kElasticEvents = {kPlanned, kComplete, kProcessLost, kSettled, kReported, kReset, kEnd};
constexpr std::array kElasticEventNames = {"planned",  "complete", "process lost", "settled",
                                           "reported", "reset",    "end"};
static_assert(kElasticPhases.size() == kElasticPhaseNames.size());
static_assert(kElasticEvents.size() == kElasticEventNames.size());

}  // namespace

std::optional<ElasticPhase> next_phase(ElasticPhase from, ElasticEvent event) {
  const auto* const row = std::ranges::find_if(
      kElasticPhaseTable, [&](const ElasticPhaseRow& each) { return each.from == from && each.event == event; });
  if (row == kElasticPhaseTable.end()) return std::nullopt;
  return row->to;
}

std::string_view name_of(ElasticPhase phase) {
  return kElasticPhaseNames[static_cast<std::size_t>(phase)];
}

std::string_view name_of(ElasticEvent event) {
  return kElasticEventNames[static_cast<std::size_t>(event)];
}

std::span<const ElasticPhase> all_elastic_phases() {
  return kElasticPhases;
}

std::span<const ElasticEvent> all_elastic_events() {
  return kElasticEvents;
}

}  // namespace muster::launcherd::elastic
