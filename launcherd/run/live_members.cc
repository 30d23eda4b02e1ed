#include "launcherd/run/live_members.h"

#include <algorithm>
#include <utility>

namespace muster::launcherd::inline run {

void LiveMembers::add(LiveProcess process) {
  newest_[process.slot] = process.number;
  if (process.rank >= 0) numbers_[process.rank] = process.number;
  processes_.push_back(std::move(process));
}

LiveProcess* LiveMembers::find(int number) {
  const auto at = static_cast<std::size_t>(number);
  return number >= 0 && at < processes_.size() ? &processes_[at] : nullptr;
}

LiveProcess* LiveMembers::living(const ElasticSlot& slot) {
  const auto newest = newest_.find(slot);
  LiveProcess* const process = newest == newest_.end() ? nullptr : find(newest->second);
  return process == nullptr || process->has_ended ? nullptr : process;
}

std::vector<LiveProcess*> LiveMembers::living_on(int agent) {
  std::vector<LiveProcess*> living;
  for (LiveProcess& each : processes_) {
    if (!each.has_ended && each.agent == agent) living.push_back(&each);
  }
  return living;
}

std::set<int> LiveMembers::living_agents() const {
  std::set<int> agents;
  for (const LiveProcess& each : processes_) {
    if (!each.has_ended) agents.insert(each.agent);
  }
  return agents;
}

bool LiveMembers::is_any_living() const {
  return !std::ranges::all_of(processes_, &LiveProcess::has_ended);
}

bool LiveMembers::may_run(int number) const {
  const auto at = static_cast<std::size_t>(number);
  return number >= 0 && at < processes_.size() && !processes_[at].has_ended;
}

bool LiveMembers::has_joined(int number) const {
  const auto at = static_cast<std::size_t>(number);
  return number >= 0 && at < processes_.size() && processes_[at].has_joined;
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
  const auto found = numbers_.find(rank);
  return found == numbers_.end() ? -1 : found->second;
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
  numbers_.clear();
  for (const auto& [process, rank] : members) {
    process->rank = rank;
    process->has_joined = true;
    numbers_[rank] = process->number;
  }
  return former;
}

}  // namespace muster::launcherd::run
