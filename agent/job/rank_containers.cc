#include "agent/job/rank_containers.h"

#include "agent/launch/container.h"
#include "proto/convert.h"

namespace muster::agent::inline job {

base::Status put_in_containers(const v1::Launch& launch, const std::vector<std::string>& stores,
                               std::vector<SpawnRequest>& requests) {
  if (!launch.has_container()) return base::ok_status();
  const model::Container container = proto::container_of(launch.container());
  std::vector<std::string> settings = {"PYTHONPATH"};  // by this variable the rank finds Muster's Python
  for (const v1::EnvVar& variable : launch.environment()) {
    if (variable.name().starts_with("MUSTER_") || variable.name().starts_with("HOROVOD_")) {
      settings.push_back(variable.name());
    }
  }
  for (int i = 0; i < launch.ranks_size(); ++i) {
    std::vector<std::string> names = settings;
    for (const v1::EnvVar& variable : launch.ranks(i).environment()) names.push_back(variable.name());
    names.insert(names.end(), stores.begin(), stores.end());
    MUSTER_RETURN_IF_ERROR(enter_container(container, names, requests[static_cast<std::size_t>(i)]));
  }
  return base::ok_status();
}

}  // namespace muster::agent::job
