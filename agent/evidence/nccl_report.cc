// All of nccl_report.h. Read parse_nccl_report(), then nccl_findings() at the end.
#include "agent/evidence/nccl_report.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "base/json.h"
#include "base/shortened.h"
#include "base/strings.h"
#include "model/exit_report.h"

namespace muster::agent::inline evidence {
namespace {

constexpr std::int64_t kMostRanks = 1 << 20;
constexpr std::size_t kMostFindings = 8;
constexpr std::size_t kLongestOperation = 40;  // bytes of a name
constexpr std::size_t kLongestList = 100;      // bytes of a list of ranks

base::Status no_report(std::string_view why) {
  return base::invalid_argument("NCCL's report: {}", why);
}

base::Result<NcclRank> rank_of(const base::JsonNode& node, std::int64_t size) {
  const auto number = node.number_at("rank");
  if (!number || *number < 0 || *number >= size) return no_report("a rank has no valid number");
  NcclRank rank{.rank = static_cast<int>(*number), .pid = node.number_at("pid").value_or(-1)};
  if (const base::JsonNode* const status = node.find("status")) rank.is_dead = status->is_true_at("considered_dead");
  const base::JsonNode* const counts = node.find("collective_counts");
  if (counts == nullptr || counts->kind != base::JsonNode::Kind::kObject) return rank;
  for (std::size_t i = 0; i < counts->items.size(); ++i) {
    const auto count = counts->items[i].whole_number();
    if (!count || *count < 0) return no_report("a number of operations is invalid");
    rank.counts[counts->keys[i]] = static_cast<std::uint64_t>(*count);
  }
  return rank;
}

base::Result<NcclCommunicator> communicator_of(const base::JsonNode& node) {
  const auto size = node.number_at("size");
  if (!size || *size < 1 || *size > kMostRanks) return no_report("a communicator has no valid size");
  NcclCommunicator communicator{.size = static_cast<int>(*size)};
  std::set<int> seen;
  for (const bool is_missing : {false, true}) {
    for (const base::JsonNode& each : node.array_at(is_missing ? "missing_ranks" : "ranks")) {
      MUSTER_ASSIGN_OR_RETURN(NcclRank rank, rank_of(each, *size));
      if (!seen.insert(rank.rank).second) return no_report("a rank is repeated");
      (is_missing ? communicator.missing : communicator.ranks).push_back(std::move(rank));
    }
  }
  return communicator;
}

// Returns the rank with this number, whether it has answered or not. nullptr if NCCL names no such rank.
const NcclRank* find_rank(const NcclCommunicator& communicator, int number) {
  for (const auto* const ranks : {&communicator.ranks, &communicator.missing}) {
    const auto found = std::ranges::find(*ranks, number, &NcclRank::rank);
    if (found != ranks->end()) return &*found;
  }
  return nullptr;
}

// True if NCCL's numbers in this communicator are those of the job, as far as this host can see.
bool has_numbers_of(const NcclCommunicator& communicator, const NcclJob& job) {
  if (communicator.size != job.size) return false;
  bool is_any_equal = false;
  for (const auto& [pid, number] : job.ranks) {
    const NcclRank* const rank = find_rank(communicator, number);
    if (rank == nullptr || rank->pid <= 0) continue;
    if (rank->pid != pid) return false;
    is_any_equal = true;
  }
  return is_any_equal;
}

std::string counted(std::size_t number, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", number, number == 1 ? one : many);
}

std::string numbers_text(const std::vector<int>& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks",
                     base::shortened(model::format_rank_list(ranks), kLongestList));
}

std::string missing_text(const NcclCommunicator& communicator, std::vector<int>& ranks) {
  std::size_t dead = 0;
  for (const NcclRank& rank : communicator.missing) {
    ranks.push_back(rank.rank);
    dead += rank.is_dead ? 1 : 0;
  }
  std::ranges::sort(ranks);
  const bool is_one = ranks.size() == 1;
  const std::string given_up = dead == 0 ? ""
                               : dead == ranks.size()
                                   ? ", and NCCL has given up on " + std::string(is_one ? "it" : "them")
                                   : fmt::format(", and NCCL has given up on {} of them", dead);
  return fmt::format("{} {} not answer NCCL{}", numbers_text(ranks), is_one ? "does" : "do", given_up);
}

// Finds the operation in whose number the ranks differ, and the ranks that are behind. Empty if there is none.
std::string behind_text(const NcclCommunicator& communicator, std::vector<int>& ranks) {
  std::map<std::string, std::map<std::uint64_t, std::vector<int>>> operations;  // number of operations -> ranks
  for (const NcclRank& rank : communicator.ranks) {
    for (const auto& [operation, count] : rank.counts) operations[operation][count].push_back(rank.rank);
  }
  for (auto& [operation, counts] : operations) {
    if (counts.size() < 2) continue;
    const auto& [most, leaders] = *counts.rbegin();
    const std::string name = base::shortened(base::printable(operation), kLongestOperation);
    const std::uint64_t least = counts.begin()->first;
    for (const auto& [count, behind] : counts) {
      if (count != most) ranks.insert(ranks.end(), behind.begin(), behind.end());
    }
    std::ranges::sort(ranks);
    // If most ranks are behind, the others may as well be ahead.
    if (2 * ranks.size() >= communicator.ranks.size()) {
      ranks.clear();
      return fmt::format("its ranks have begun between {} and {} operations {}", least, most, name);
    }
    const std::string number = counts.size() == 2 ? fmt::format("{}", least) : fmt::format("{} or more", least);
    return fmt::format("{} {} begun {} operations {}, but {} {}", numbers_text(ranks),
                       ranks.size() == 1 ? "has" : "have", number, name, counted(leaders.size(), "rank", "ranks"),
                       most);
  }
  return "";
}

}  // namespace

base::Result<std::vector<NcclCommunicator>> parse_nccl_report(std::string_view json) {
  MUSTER_ASSIGN_OR_RETURN(const base::JsonNode report, base::parse_json(json));
  const base::JsonNode* const list = report.find("communicators");
  if (list == nullptr || list->kind != base::JsonNode::Kind::kArray) return no_report("it lists no communicators");
  std::vector<NcclCommunicator> communicators;
  for (const base::JsonNode& each : list->items) {
    MUSTER_ASSIGN_OR_RETURN(NcclCommunicator communicator, communicator_of(each));
    communicators.push_back(std::move(communicator));
  }
  return communicators;
}

std::vector<model::NcclFinding> nccl_findings(const std::vector<NcclCommunicator>& communicators, const NcclJob& job) {
  std::vector<model::NcclFinding> findings;
  for (const NcclCommunicator& communicator : communicators) {
    if (findings.size() == kMostFindings) break;
    std::vector<int> ranks;
    const std::string what =
        communicator.missing.empty() ? behind_text(communicator, ranks) : missing_text(communicator, ranks);
    if (what.empty()) continue;
    const bool is_world = has_numbers_of(communicator, job);
    if (!is_world) ranks.clear();
    findings.push_back({.text = fmt::format("communicator of {}{}: {}",
                                            counted(static_cast<std::size_t>(communicator.size), "rank", "ranks"),
                                            is_world ? "" : ", by NCCL's numbers", what),
                        .ranks = std::move(ranks)});
  }
  return findings;
}

}  // namespace muster::agent::evidence
