#include "launcherd/run/live_members.h"

#include <algorithm>
#include <utility>

namespace muster::launcherd::inline run {

LiveProcess* LiveMembers::find(int number) {
  const auto at = static_cast<std::size_t>(number);
  return number >= 0 && at < processes_.size() ? &processes_[at] : nullptr;
}

LiveProcess* LiveMembers::living(const ElasticSlot& slot) {
  const auto found =
      std::ranges::find_if(processes_, [&](const LiveProcess& each) { return !each.has_ended && each.slot == slot; });
  return found == processes_.end() ? nullptr : &*found;
}

std::vector<LiveProcess*> LiveMembers::living_on(int agent) {
  std::vector<LiveProcess*> living;
  for (LiveProcess& each : processes_) {
    if (!each.has_ended && each.agent == agent) living.push_back(&each);
  }
  return living;
}

bool LiveMembers::is_any_living() const {
  return !std::ranges::all_of(processes_, &LiveProcess::has_ended);
}

bool LiveMembers::may_run(int number) const {
  const auto at = static_cast<std::size_t>(number);
  return number >= 0 && at < processes_.size() && !processes_[at].has_ended;
}

bool LiveMembers::is_stopped(int number) const {
  const auto at = static_cast<std::size_t>(number);
  return number >= 0 && at < processes_.size() && processes_[at].is_stopped;
}

int LiveMembers::rank_of(int number) const {
  const auto at = static_cast<std::size_t>(number);
  return number >= 0 && at < processes_.size() ? processes_[at].rank : -1;
}

int LiveMembers::number_of(int rank) const {
  const auto found = std::ranges::find(processes_, rank, &LiveProcess::rank);
  return rank < 0 || found == processes_.end() ? -1 : found->number;
}

std::vector<int> LiveMembers::begin(const ElasticPlan& plan) {
  std::vector<std::pair<LiveProcess*, int>> members;
  std::vector<int> former;
  for (const PlannedSlot& planned : plan) {
    LiveProcess* const process = living(planned.slot);
    former.push_back(process == nullptr ? -1 : process->rank);
    if (process != nullptr) members.emplace_back(process, planned.plan.rank);
  }
  for (LiveProcess& each : processes_) each.rank = -1;
  for (const auto& [process, rank] : members) process->rank = rank;
  return former;
}

}  // namespace muster::launcherd::run
