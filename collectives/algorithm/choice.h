// Which algorithm an allreduce takes: one table, so that all ranks decide alike from what all know.
//
// Where the borders come from is told at the table in choice.cc; MUSTER_ALGORITHM=<name> overrides it where that
// algorithm can do what is asked.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "base/status.h"
#include "collectives/algorithm/reduce_task.h"
#include "collectives/kernel/dtype.h"

namespace muster::collectives::inline algorithm {

enum class AllreduceAlgorithm {
  kFlat,               // one host: everyone reads all inputs
  kStaged,             // one host: chunks through shared memory
  kPeerRead,           // one host: process_vm_readv
  kDirect,             // one host: registered buffers
  kOneShot,            // links: everyone sends all to all
  kRecursiveDoubling,  // links
  kPairwise,           // links: reduce-scatter and allgather between all pairs
  kRing,               // links, in rank order
  kHierarchical,       // shared memory inside hosts, links between them
};
std::string_view name_of(AllreduceAlgorithm algorithm);
// As name_of() gives it. INVALID_ARGUMENT: names those that exist.
base::Result<AllreduceAlgorithm> parse_algorithm(std::string_view name);

// Between hosts, as link_speed.h measures it.
struct LinkSpeed {
  double latency_us = 20;       // of one message between two hosts
  double message_us = 2;        // more for each further one at the same time
  double bytes_per_us = 1'000;  // of a host, each way
};

// Of a communicator; the same on all its ranks.
struct Layout {
  int ranks = 1;
  int hosts = 1;
  int local_ranks = 1;          // of the largest host
  int least_local_ranks = 1;    // of the smallest host
  bool oversubscribed = false;  // on any host
  bool can_read_peers = false;  // on all hosts
  LinkSpeed link{};
};

struct Wish {
  std::size_t bytes = 0;
  DType type = DType::kF32;
  bool registered = false;  // on all ranks
  bool one_go = false;      // partial results would lose something (wants_one_go())
  bool any_order = false;   // inputs in any order give the same bits (is_order_free())
  std::optional<AllreduceAlgorithm> forced{};
};

Wish wish_of(const ReduceTask& reduction);
AllreduceAlgorithm choose_allreduce(const Layout& layout, const Wish& wish);
// How long one over links takes, by the formulas in choice.cc.
double predicted_us(AllreduceAlgorithm algorithm, int ranks, std::size_t bytes, const LinkSpeed& link);

}  // namespace muster::collectives::algorithm
