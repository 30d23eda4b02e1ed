// The choice of an allreduce's algorithm: its limits, the cost formulas, and names.
// Read choose_allreduce() at the end first, then on_one_host(), between_hosts() and predicted_us().
#include "collectives/algorithm/choice.h"

#include <algorithm>
#include <array>
#include <bit>
#include <span>
#include <string>

namespace muster::collectives::inline algorithm {
namespace {

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = 1024 * kKiB;

struct Name {
  AllreduceAlgorithm algorithm;
  std::string_view name;
};
constexpr std::array<Name, 9> kNames{{{AllreduceAlgorithm::kFlat, "flat"},
                                      {AllreduceAlgorithm::kStaged, "staged"},
                                      {AllreduceAlgorithm::kPeerRead, "peer_read"},
                                      {AllreduceAlgorithm::kDirect, "direct"},
                                      {AllreduceAlgorithm::kOneShot, "one_shot"},
                                      {AllreduceAlgorithm::kRecursiveDoubling, "recursive_doubling"},
                                      {AllreduceAlgorithm::kPairwise, "pairwise"},
                                      {AllreduceAlgorithm::kRing, "ring"},
                                      {AllreduceAlgorithm::kHierarchical, "hierarchical"}}};

// The largest size, in bytes, for which an algorithm is the fastest. Measured on two cores with dirtied inputs
// (bench/results).
constexpr std::size_t kFlatUpTo = 16 * kKiB;
constexpr std::size_t kFlatUpToManyRanks = 8 * kKiB;  // with more than four ranks, reading costs more than it saves
constexpr std::size_t kStagedUpTo = 3 * kMiB / 2;     // below this size, walking peers' pages costs too much
constexpr std::size_t kPeerReadUpTo = 12 * kMiB;      // above this size, stores past the caches are faster

// Between hosts, the fastest algorithm is the one whose steps cost least over links of the measured speed:
//
//                       latencies       messages at once   bytes on a host's link   bytes reduced after the last
//                       arrival
//   one shot            1               p - 1              (p-1) S                  (p-1) S
//   recursive doubling  log2 p (+ 2)    1                  log2(p) S (+ 2 S)        log2(p) S (+ S)
//   pairwise            2               p - 1              2 (p-1)/p S              -
//   ring                2 (p-1)         1                  2 (p-1)/p S              -
//
// The measured speed differs a little from run to run, but results must not. So if the order of the inputs shows in the
// result, only algorithms with the same order compete by their costs: one shot and pairwise. The limits to the other
// algorithms are constants then. Between two ranks all orders are the same.
constexpr double kReducedPerUs = 40'000;           // bytes, in the cache
constexpr std::size_t kRingSliceFrom = 64 * kKiB;  // larger slices should not go to all ranks at the same time
constexpr int kManyRanks = 16;  // from this many ranks on, p - 1 messages at once take longer than a few more steps
constexpr std::size_t kDoublingUpTo = 4 * kKiB;  // used for many ranks

AllreduceAlgorithm on_one_host(const Layout& layout, const AllreduceCriteria& criteria) {
  if (criteria.bytes <= (layout.ranks > 4 ? kFlatUpToManyRanks : kFlatUpTo)) return AllreduceAlgorithm::kFlat;
  if (criteria.registered) return AllreduceAlgorithm::kDirect;
  // Between two ranks, both ways move the same bytes from core to core, and this one has half as many rounds.
  if (layout.ranks <= 2) return AllreduceAlgorithm::kFlat;
  const bool reads = layout.can_read_peers && !layout.oversubscribed;
  return reads && criteria.bytes > kStagedUpTo && criteria.bytes <= kPeerReadUpTo ? AllreduceAlgorithm::kPeerRead
                                                                                  : AllreduceAlgorithm::kStaged;
}

struct Rounds {
  double latencies = 0;
  double others = 0;  // the messages of a step after its first one
  double sent = 0;    // vectors on a link
  double reduced = 0;
};

Rounds rounds_of(AllreduceAlgorithm algorithm, int ranks) {
  const double others = ranks - 1;
  const double in_slices = 2 * others / ranks;
  switch (algorithm) {
    case AllreduceAlgorithm::kOneShot:
      return {1, others - 1, others, others};
    case AllreduceAlgorithm::kRecursiveDoubling: {
      const auto size = static_cast<unsigned>(ranks);
      const double steps = std::bit_width(size) - 1;
      return std::has_single_bit(size) ? Rounds{steps, 0, steps, steps} : Rounds{steps + 2, 0, steps + 2, steps + 1};
    }
    case AllreduceAlgorithm::kPairwise:
      return {2, 2 * (others - 1), in_slices, 0};
    default:
      return {2 * others, 0, in_slices, 0};
  }
}

using Candidates = std::span<const AllreduceAlgorithm>;

Candidates candidates(int ranks, const AllreduceCriteria& criteria) {
  using enum AllreduceAlgorithm;
  static constexpr std::array kAll{kOneShot, kRecursiveDoubling, kRing, kPairwise};
  static constexpr std::array kInOrderOfRanks{kOneShot, kPairwise};
  static constexpr std::array kMany{kRecursiveDoubling};
  static constexpr std::array kLarge{kRing};
  if (criteria.one_go) return kInOrderOfRanks;
  if (ranks == 2) return kAll;
  if (criteria.bytes >= kRingSliceFrom * static_cast<std::size_t>(ranks)) return kLarge;
  if (criteria.any_order) return kAll;
  return ranks > kManyRanks && criteria.bytes <= kDoublingUpTo ? Candidates(kMany) : Candidates(kInOrderOfRanks);
}

AllreduceAlgorithm between_hosts(const Layout& layout, const AllreduceCriteria& criteria) {
  if (layout.local_ranks > 1) return AllreduceAlgorithm::kHierarchical;
  const auto cost = [&](AllreduceAlgorithm one) {
    return predicted_us(one, layout.ranks, criteria.bytes, layout.link);
  };
  return std::ranges::min(candidates(layout.ranks, criteria), {}, cost);
}

bool can_do(const Layout& layout, const AllreduceCriteria& criteria, AllreduceAlgorithm algorithm) {
  switch (algorithm) {
    case AllreduceAlgorithm::kFlat:
    case AllreduceAlgorithm::kStaged:
      return layout.hosts == 1;
    case AllreduceAlgorithm::kPeerRead:
      return layout.hosts == 1 && layout.can_read_peers;
    case AllreduceAlgorithm::kDirect:
      return layout.hosts == 1 && criteria.registered;
    case AllreduceAlgorithm::kRing:
      return layout.ranks > 1 && !(criteria.one_go && layout.ranks > 2);
    case AllreduceAlgorithm::kOneShot:
      return layout.ranks > 1 && criteria.bytes <= kMiB;
    case AllreduceAlgorithm::kRecursiveDoubling:
    case AllreduceAlgorithm::kPairwise:
      return layout.ranks > 1;
    case AllreduceAlgorithm::kHierarchical:
      return layout.hosts > 1;
  }
  return false;
}

}  // namespace

std::string_view name_of(AllreduceAlgorithm algorithm) {
  for (const Name& known : kNames) {
    if (known.algorithm == algorithm) return known.name;
  }
  return "unknown";
}

base::Result<AllreduceAlgorithm> parse_algorithm(std::string_view name) {
  std::string names;
  for (const Name& known : kNames) {
    if (known.name == name) return known.algorithm;
    names += std::string(names.empty() ? "" : ", ") + std::string(known.name);
  }
  return base::invalid_argument("MUSTER_ALGORITHM={}: unknown algorithm; use one of: {}", name, names);
}

AllreduceCriteria criteria_of(const ReduceTask& reduction) {
  return {.bytes = reduction.bytes(),
          .type = reduction.type,
          .one_go = wants_one_go(reduction.type),
          .any_order = is_order_free(reduction.type)};
}

double predicted_us(AllreduceAlgorithm algorithm, int ranks, std::size_t bytes, const LinkSpeed& link) {
  const Rounds rounds = rounds_of(algorithm, ranks);
  const auto size = static_cast<double>(bytes);
  return rounds.latencies * link.latency_us + rounds.others * link.message_us + rounds.sent * size / link.bytes_per_us +
         rounds.reduced * size / kReducedPerUs;
}

AllreduceAlgorithm choose_allreduce(const Layout& layout, const AllreduceCriteria& criteria) {
  if (criteria.forced && can_do(layout, criteria, *criteria.forced)) return *criteria.forced;
  return layout.hosts == 1 ? on_one_host(layout, criteria) : between_hosts(layout, criteria);
}

}  // namespace muster::collectives::algorithm
