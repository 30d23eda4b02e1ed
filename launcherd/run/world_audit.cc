#include "launcherd/run/world_audit.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

#include "base/strings.h"

namespace muster::launcherd::inline run {
namespace {

constexpr std::size_t kLongestText = 200;

// The reason and what to do, by what the agent saw.
std::string reason_of(const std::string& source, const std::string& detail) {
  if (source == "torchrun" || source == "accelerate") {
    return fmt::format(
        "each rank has started {0}, which formed a world of its own. Leave {0} out: hvdrun starts the ranks itself. Or "
        "start one rank per host, and give {0} the number of hosts (--nnodes)",
        source);
  }
  if (source == "mpirun" || source == "horovodrun") {
    return fmt::format("each rank has started {0}, which started ranks of its own. Leave {0} out: hvdrun does its work",
                       source);
  }
  if (detail == "no MUSTER_SESSION_DIR" || detail == "no PMIX_RANK" || detail == "no PMI_FD") {
    const std::string_view name = std::string_view(detail).substr(std::string_view("no ").size());
    return fmt::format(
        "the ranks' programs do not have the variables by which they find each other ({}). Does the command remove "
        "them, "
        "as env -i, sudo or ssh do? Let it pass them on",
        name);
  }
  if (detail == "MUSTER_RENDEZVOUS") {
    return "MUSTER_RENDEZVOUS is set, so the ranks meet there and not where hvdrun says. Unset it";
  }
  if (detail.starts_with("MUSTER_SIZE=")) {
    return fmt::format("the command has set {}. Let it leave Muster's variables as they are", base::printable(detail));
  }
  return "the program has chosen another place to meet than the one that hvdrun gave it";
}

}  // namespace

void WorldAudit::begin(int size) {
  size_ = size;
  has_found_ = false;
  groups_.clear();
}

bool WorldAudit::are_possible() const {
  std::map<int, int> members;  // number of ranks by size of the group
  for (const auto& [rank, group] : groups_) ++members[group.size];
  return std::ranges::all_of(members, [](const auto& entry) { return entry.second % entry.first == 0; });
}

std::optional<model::WrongWorld> WorldAudit::add(int rank, const v1::RankWorld& report) {
  if (rank < 0 || rank >= size_ || size_ < 2 || report.size() < 1) return std::nullopt;
  if (report.size() == size_) {
    groups_.erase(rank);
    return std::nullopt;
  }
  groups_[rank] = {report.size(), report.source().substr(0, kLongestText), report.detail().substr(0, kLongestText)};
  if (has_found_ || groups_.size() != static_cast<std::size_t>(size_) || !are_possible()) return std::nullopt;
  has_found_ = true;
  model::WrongWorld found{.size = size_, .formed = {}, .reason = {}};
  std::map<Group, std::vector<int>> ranks;
  for (const auto& [each, group] : groups_) ranks[group].push_back(each);
  for (const auto& [group, members] : ranks) {
    found.formed.push_back({.size = group.size, .ranks = members, .source = base::valid_utf8(group.source)});
  }
  const auto most = std::ranges::max_element(ranks, {}, [](const auto& entry) { return entry.second.size(); });
  found.reason = base::valid_utf8(reason_of(most->first.source, most->first.detail));
  return found;
}

}  // namespace muster::launcherd::run
