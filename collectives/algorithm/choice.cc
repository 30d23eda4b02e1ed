#include "collectives/algorithm/choice.h"

#include <array>
#include <string>

namespace muster::collectives {
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

// Largest size, in bytes, for which an algorithm is the fastest one; measured on two cores with dirtied inputs
// (bench/results).
constexpr std::size_t kFlatUpTo = 16 * kKiB;
constexpr std::size_t kFlatUpToTwoRanks = 32 * kKiB;
constexpr std::size_t kFlatUpToManyRanks = 8 * kKiB;  // more than four ranks read more than they save
constexpr std::size_t kStagedUpTo = 3 * kMiB / 2;     // below, peers' pages are not worth walking
constexpr std::size_t kPeerReadUpTo = 12 * kMiB;      // above, stores that go round the caches win
constexpr std::size_t kOneShotUpTo = 8 * kKiB;        // of all that a rank receives
constexpr std::size_t kDoublingUpTo = 16 * kKiB;

AllreduceAlgorithm on_one_host(const Layout& layout, const Wish& wish) {
  if (wish.bytes <= (layout.ranks > 4 ? kFlatUpToManyRanks : kFlatUpTo)) return AllreduceAlgorithm::kFlat;
  if (wish.registered) return AllreduceAlgorithm::kDirect;
  if (layout.ranks <= 2 && wish.bytes <= kFlatUpToTwoRanks) return AllreduceAlgorithm::kFlat;
  const bool reads = layout.can_read_peers && !layout.oversubscribed;
  return reads && wish.bytes > kStagedUpTo && wish.bytes <= kPeerReadUpTo ? AllreduceAlgorithm::kPeerRead
                                                                          : AllreduceAlgorithm::kStaged;
}

AllreduceAlgorithm between_hosts(const Layout& layout, const Wish& wish) {
  if (layout.local_ranks > 1) return AllreduceAlgorithm::kHierarchical;
  if (wish.bytes * static_cast<std::size_t>(layout.ranks - 1) <= kOneShotUpTo) return AllreduceAlgorithm::kOneShot;
  if (wish.one_go) return AllreduceAlgorithm::kPairwise;
  return wish.bytes <= kDoublingUpTo ? AllreduceAlgorithm::kRecursiveDoubling : AllreduceAlgorithm::kRing;
}

bool can_do(const Layout& layout, const Wish& wish, AllreduceAlgorithm algorithm) {
  switch (algorithm) {
    case AllreduceAlgorithm::kFlat:
      return layout.hosts == 1 && wish.bytes <= 256 * kKiB;
    case AllreduceAlgorithm::kStaged:
      return layout.hosts == 1;
    case AllreduceAlgorithm::kPeerRead:
      return layout.hosts == 1 && layout.can_read_peers;
    case AllreduceAlgorithm::kDirect:
      return layout.hosts == 1 && wish.registered;
    case AllreduceAlgorithm::kRing:
      return layout.ranks > 1 && !(wish.one_go && layout.ranks > 2);
    case AllreduceAlgorithm::kOneShot:
      return layout.ranks > 1 && wish.bytes <= kMiB;
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
  return base::error(base::Code::kInvalidArgument, "MUSTER_ALGORITHM={}: there is no such algorithm, but {}", name,
                     names);
}

AllreduceAlgorithm choose_allreduce(const Layout& layout, const Wish& wish) {
  if (wish.forced && can_do(layout, wish, *wish.forced)) return *wish.forced;
  return layout.hosts == 1 ? on_one_host(layout, wish) : between_hosts(layout, wish);
}

}  // namespace muster::collectives
