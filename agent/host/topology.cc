#include "agent/host/topology.h"

#include <hwloc.h>

#include <cerrno>
#include <cstdlib>
#include <memory>

namespace muster::agent::inline host {
namespace {

struct TopologyDeleter {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<hwloc_topology, TopologyDeleter>;

base::Result<Topology> load_topology() {
  // Set a folder that does not exist. Otherwise hwloc would dlopen the host's plugins, which a static program must
  // not do.
  ::setenv("HWLOC_PLUGINS_PATH", "/nonexistent", 1);
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return base::errno_error(errno, "prepare to read the host's topology");
  Topology topology(raw);
  // Load only what the binder needs, because every start waits for this. Leave out the x86 backend, because each of
  // its cpuid instructions exits a virtual machine. Sockets, cores and NUMA nodes come from the kernel.
  hwloc_topology_set_all_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_NONE);
  hwloc_topology_set_type_filter(raw, HWLOC_OBJ_CORE, HWLOC_TYPE_FILTER_KEEP_ALL);
  hwloc_topology_set_type_filter(raw, HWLOC_OBJ_PACKAGE, HWLOC_TYPE_FILTER_KEEP_ALL);
  hwloc_topology_set_components(raw, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86");
  hwloc_topology_set_flags(
      raw, HWLOC_TOPOLOGY_FLAG_NO_DISTANCES | HWLOC_TOPOLOGY_FLAG_NO_MEMATTRS | HWLOC_TOPOLOGY_FLAG_NO_CPUKINDS);
  if (hwloc_topology_load(raw) != 0) return base::errno_error(errno, "read the host's topology");
  return topology;
}

int ancestor_index(hwloc_topology_t topology, hwloc_obj_t object, hwloc_obj_type_t type) {
  const hwloc_obj_t ancestor = hwloc_get_ancestor_obj_by_type(topology, type, object);
  return ancestor == nullptr ? 0 : static_cast<int>(ancestor->logical_index);
}

int numa_index(hwloc_topology_t topology, hwloc_obj_t core) {
  const int nodes = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE);
  for (int i = 0; i < nodes; ++i) {
    const hwloc_obj_t node = hwloc_get_obj_by_type(topology, HWLOC_OBJ_NUMANODE, static_cast<unsigned>(i));
    if (node->cpuset != nullptr && hwloc_bitmap_intersects(node->cpuset, core->cpuset)) return i;
  }
  return 0;
}

}  // namespace

model::NodeShape node_shape_of(hwloc_topology* topology, const hwloc_bitmap_s* allowed) {
  model::NodeShape shape;
  shape.memory_mib = static_cast<long>(hwloc_get_root_obj(topology)->total_memory >> 20);
  // If hwloc knows no cores on this machine, each hardware thread counts as a core.
  const bool has_cores = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE) > 0;
  const hwloc_obj_type_t type = has_cores ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
  for (hwloc_obj_t core = hwloc_get_next_obj_by_type(topology, type, nullptr); core != nullptr;
       core = hwloc_get_next_obj_by_type(topology, type, core)) {
    model::CoreShape entry;
    entry.socket = ancestor_index(topology, core, HWLOC_OBJ_PACKAGE);
    entry.numa = numa_index(topology, core);
    for (int cpu = hwloc_bitmap_first(core->cpuset); cpu >= 0; cpu = hwloc_bitmap_next(core->cpuset, cpu)) {
      if (hwloc_bitmap_isset(allowed, static_cast<unsigned>(cpu)) != 0) entry.cpus.push_back(cpu);
    }
    if (!entry.cpus.empty()) shape.cores.push_back(std::move(entry));
  }
  return shape;
}

base::Result<model::NodeShape> read_node_shape() {
  MUSTER_ASSIGN_OR_RETURN(const Topology topology, load_topology());
  const std::unique_ptr<hwloc_bitmap_s, decltype(&hwloc_bitmap_free)> allowed(hwloc_bitmap_alloc(), &hwloc_bitmap_free);
  // Ranks may use only the CPUs in the affinity that sshd or a scheduler gave this process.
  if (hwloc_get_cpubind(topology.get(), allowed.get(), HWLOC_CPUBIND_PROCESS) != 0) {
    hwloc_bitmap_copy(allowed.get(), hwloc_topology_get_allowed_cpuset(topology.get()));
  }
  return node_shape_of(topology.get(), allowed.get());
}

}  // namespace muster::agent::host
