#include "agent/job/live_ranks.h"

#include <algorithm>

#include <fmt/format.h>

namespace muster::agent::inline job {

void LiveRanks::add(const Members& members) {
  for (const v1::LiveMember& member : members) {
    if (member.rank() >= 0) members_[member.number()] = member;
  }
}

void LiveRanks::begin(const Members& members) {
  members_.clear();
  add(members);
}

std::optional<int> LiveRanks::at_local_rank(int local_rank) const {
  const auto found =
      std::ranges::find_if(members_, [&](const auto& entry) { return entry.second.local_rank() == local_rank; });
  return found == members_.end() ? std::nullopt : std::optional(found->first);
}

std::optional<int> LiveRanks::at_rank(int rank) const {
  std::optional<int> found;
  for (const auto& [number, member] : members_) {
    if (member.rank() == rank) found = number;
  }
  return found;
}

std::optional<int> LiveRanks::rank_of(int number) const {
  const auto found = members_.find(number);
  return found == members_.end() ? std::nullopt : std::optional(found->second.rank());
}

std::optional<int> LiveRanks::local_rank_of(int number) const {
  const auto found = members_.find(number);
  return found == members_.end() ? std::nullopt : std::optional(found->second.local_rank());
}

std::vector<int> LiveRanks::ranks() const {
  std::vector<int> ranks;
  for (const auto& [number, member] : members_) ranks.push_back(member.rank());
  return ranks;
}

std::string numbers_text(const v1::LiveMember& member) {
  if (member.rank() < 0) return "-1,-1,-1,-1,-1,-1";
  return fmt::format("{},{},{},{},{},{}", member.rank(), member.size(), member.local_rank(), member.local_size(),
                     member.cross_rank(), member.cross_size());
}

}  // namespace muster::agent::job
