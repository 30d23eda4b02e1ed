// Chooses the algorithm of an allreduce. The choice depends only on what all ranks know, so all ranks choose the same.
//
// choice.cc documents the source of its limits. MUSTER_ALGORITHM=<name> overrides the choice if that algorithm supports
// the operation.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "base/status.h"
#include "collectives/algorithm/reduce_task.h"
#include "collectives/kernel/dtype.h"

namespace muster::collectives::inline algorithm {

enum class AllreduceAlgorithm {
  kFlat,               // one host: every rank reads all inputs
  kStaged,             // one host: chunks through shared memory
  kPeerRead,           // one host: process_vm_readv
  kDirect,             // one host: registered buffers
  kOneShot,            // links: every rank sends all to every rank
  kRecursiveDoubling,  // links: doubling distances
  kPairwise,           // links: reduce-scatter and allgather between all pairs
  kRing,               // links, in rank order
  kHierarchical,       // shared memory inside hosts, links between them
};
std::string_view name_of(AllreduceAlgorithm algorithm);
// Parses a name of name_of(). INVALID_ARGUMENT lists the valid names.
base::Result<AllreduceAlgorithm> parse_algorithm(std::string_view name);

// The speed between hosts, as link_speed.h measures it.
struct LinkSpeed {
  double latency_us = 20;       // of one message between two hosts
  double message_us = 2;        // for each further message at the same time
  double bytes_per_us = 1'000;  // of a host, in each direction
};

// The layout of a communicator; the same on all its ranks.
struct Layout {
  int ranks = 1;
  int hosts = 1;
  int local_ranks = 1;          // of the largest host
  int least_local_ranks = 1;    // of the smallest host
  bool oversubscribed = false;  // true if any host has more ranks than cores
  bool can_read_peers = false;  // true if ranks may read each other's memory on all hosts
  LinkSpeed link{};
};

struct AllreduceCriteria {
  std::size_t bytes = 0;
  DType type = DType::kF32;
  bool registered = false;  // true if all ranks have registered their buffers
  bool one_go = false;      // partial results would lose precision (wants_one_go())
  bool any_order = false;   // all orders of the inputs give the same bits (is_order_free())
  std::optional<AllreduceAlgorithm> forced{};
};

// Returns the criteria of a reduction. `registered` and `forced` keep their defaults.
AllreduceCriteria criteria_of(const ReduceTask& reduction);
AllreduceAlgorithm choose_allreduce(const Layout& layout, const AllreduceCriteria& criteria);
// Returns the time of an algorithm over links, by the formulas in choice.cc.
double predicted_us(AllreduceAlgorithm algorithm, int ranks, std::size_t bytes, const LinkSpeed& link);

}  // namespace muster::collectives::algorithm
