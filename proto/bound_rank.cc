#include "proto/bound_rank.h"

#include "base/strings.h"
#include "model/node_shape.h"

namespace muster::proto {

void set_binding(const model::BoundRank& from, v1::RankStatus& to) {
  v1::RankBinding& binding = *to.mutable_binding();
  binding.set_cpus(model::format_cpu_list(from.cpus));
  binding.mutable_gpus()->Assign(from.gpus.begin(), from.gpus.end());
  binding.clear_devices();
  for (const std::string& device : from.devices) binding.add_devices(base::valid_utf8(device));
}

}  // namespace muster::proto
