// The plan of an elastic job's generation: which slots of which hosts are in the world, and their six numbers.
//
// Protocol: horovod 0.28.1, runner/common/util/hosts.py and runner/elastic/driver.py. A slot is the pair of a host and
// a local rank. A slot keeps this name for as long as its process lives. Hosts come in order, and all slots of a host
// come before those of the next one. The first host that can hold rank 0 comes first, because all ranks receive the
// state of rank 0.
//
// Thread: any; pure functions.
#pragma once

#include <compare>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace muster::launcherd::inline elastic {

struct ElasticSlot {
  std::string host;  // the workers' HOROVOD_HOSTNAME
  int local_rank = 0;

  friend auto operator<=>(const ElasticSlot&, const ElasticSlot&) = default;
};

struct ElasticHost {
  std::string name;
  int slots = 0;

  bool operator==(const ElasticHost&) const = default;
};

// The numbers of one slot, in the order in which Horovod's workers read them.
struct SlotPlan {
  int rank = 0;
  int size = 0;
  int local_rank = 0;
  int local_size = 0;
  int cross_rank = 0;
  int cross_size = 0;

  bool operator==(const SlotPlan&) const = default;
};

struct PlannedSlot {
  ElasticSlot slot;
  SlotPlan plan;

  bool operator==(const PlannedSlot&) const = default;
};

using ElasticPlan = std::vector<PlannedSlot>;  // in rank order

// Fills the slots of the hosts in order, up to `max_np`. nullopt means no upper limit. RESOURCE_EXHAUSTED if there are
// fewer than `min_np` slots. Hosts without slots are skipped.
base::Result<ElasticPlan> make_elastic_plan(std::span<const ElasticHost> hosts, int min_np, std::optional<int> max_np);

// nullptr if the slot is not in the plan.
const PlannedSlot* find_slot(const ElasticPlan& plan, const ElasticSlot& slot);

// The same for many slots of one plan, which must outlive the index.
class SlotIndex {
 public:
  explicit SlotIndex(const ElasticPlan& plan);
  const PlannedSlot* find(const ElasticSlot& slot) const;

 private:
  std::map<std::string_view, const PlannedSlot*, std::less<>> first_of_;  // the first slot of each host
  const PlannedSlot* const end_;
};

// Returns the answer to GET /rank_and_size: "rank,size,local_rank,local_size,cross_rank,cross_size". nullopt means that
// the slot is not in the world: six times -1.
std::string format_slot_plan(const std::optional<SlotPlan>& plan);

// Returns "n1[0]", as Horovod's messages name a slot.
std::string format_slot(const ElasticSlot& slot);

}  // namespace muster::launcherd::elastic
