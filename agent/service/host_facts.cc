#include "agent/service/host_facts.h"

#include <hwloc.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <memory>

#include "base/net.h"
#include "base/strings.h"
#include "proto/convert.h"

namespace muster::agent {
namespace {

struct TopologyDeleter {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<hwloc_topology, TopologyDeleter>;

base::Result<Topology> load_topology() {
  // hwloc would dlopen the host's plugins, which a static program must not: point it at nothing.
  ::setenv("HWLOC_PLUGINS_PATH", "/nonexistent", 1);
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return base::errno_error(errno, "prepare to read the host's topology");
  Topology topology(raw);
  // Only what the binder asks for: this is on the way of every start, and each cpuid of the x86 backend leaves a
  // virtual machine. Sockets, cores and NUMA nodes come from the kernel.
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

base::Result<model::NodeShape> read_node_shape() {
  MUSTER_ASSIGN_OR_RETURN(const Topology topology, load_topology());
  const std::unique_ptr<hwloc_bitmap_s, decltype(&hwloc_bitmap_free)> allowed(hwloc_bitmap_alloc(), &hwloc_bitmap_free);
  // The affinity that sshd or a scheduler gave us is the limit of what ranks may use.
  if (hwloc_get_cpubind(topology.get(), allowed.get(), HWLOC_CPUBIND_PROCESS) != 0) {
    hwloc_bitmap_copy(allowed.get(), hwloc_topology_get_allowed_cpuset(topology.get()));
  }
  model::NodeShape shape;
  shape.memory_mib = static_cast<long>(hwloc_get_root_obj(topology.get())->total_memory >> 20);
  // On machines where hwloc knows no cores, each hardware thread counts as one.
  const bool has_cores = hwloc_get_nbobjs_by_type(topology.get(), HWLOC_OBJ_CORE) > 0;
  const hwloc_obj_type_t type = has_cores ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
  for (hwloc_obj_t core = hwloc_get_next_obj_by_type(topology.get(), type, nullptr); core != nullptr;
       core = hwloc_get_next_obj_by_type(topology.get(), type, core)) {
    model::CoreShape entry;
    entry.socket = ancestor_index(topology.get(), core, HWLOC_OBJ_PACKAGE);
    entry.numa = numa_index(topology.get(), core);
    for (int cpu = hwloc_bitmap_first(core->cpuset); cpu >= 0; cpu = hwloc_bitmap_next(core->cpuset, cpu)) {
      if (hwloc_bitmap_isset(allowed.get(), static_cast<unsigned>(cpu)) != 0) entry.cpus.push_back(cpu);
    }
    if (!entry.cpus.empty()) shape.cores.push_back(std::move(entry));
  }
  return shape;
}

base::Status fill_host_facts(const base::Environment& login_environment, v1::Hello& hello) {
  utsname name{};
  if (::uname(&name) != 0) return base::errno_error(errno, "read the host's name");
  hello.set_hostname(name.nodename);
  hello.set_kernel(name.release);
  hello.set_uid(::geteuid());
  struct stat netns {};
  if (::stat("/proc/self/ns/net", &netns) == 0) hello.set_netns_inode(netns.st_ino);
  MUSTER_ASSIGN_OR_RETURN(const auto interfaces, base::interface_addresses());
  for (const base::InterfaceAddress& entry : interfaces) {
    v1::NetworkInterface* to = hello.add_interfaces();
    to->set_name(entry.interface);
    to->set_address(entry.address.str());
  }
  if (const auto connection = login_environment.get("SSH_CONNECTION")) {
    const auto parts = base::split(*connection, ' ');
    if (parts.size() == 4) {
      hello.set_ssh_client_address(std::string(parts[0]));
      hello.set_ssh_server_address(std::string(parts[2]));
    }
  }
  MUSTER_ASSIGN_OR_RETURN(const model::NodeShape shape, read_node_shape());
  proto::set_node_shape(shape, hello);
  return base::ok_status();
}

base::Result<v1::Prepared> find_route(const std::string& master_address) {
  MUSTER_ASSIGN_OR_RETURN(const base::IpAddress master, base::IpAddress::parse(master_address));
  MUSTER_ASSIGN_OR_RETURN(base::IpAddress source, base::route_source(master));
  // The kernel answers loopback for an address of this very host: then its own interface is the one that counts.
  if (source.is_loopback() || source == master) source = master;
  MUSTER_ASSIGN_OR_RETURN(const std::string interface, base::interface_of(source));
  v1::Prepared prepared;
  prepared.set_interface(interface);
  prepared.set_address(source.str());
  return prepared;
}

base::Result<base::UniqueFd> hold_port() {
  base::UniqueFd fd(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  base::SockAddr any;
  if (fd.valid()) {
    auto* v6 = reinterpret_cast<sockaddr_in6*>(&any.storage);
    v6->sin6_family = AF_INET6;
    any.size = sizeof *v6;
    const int off = 0;
    ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  } else {
    fd.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!fd.valid()) return base::errno_error(errno, "open a TCP socket");
    auto* v4 = reinterpret_cast<sockaddr_in*>(&any.storage);
    v4->sin_family = AF_INET;
    any.size = sizeof *v4;
  }
  // Set after the kernel has chosen the port, so that it chooses one that nobody shares, and before a rank binds it.
  if (::bind(fd.get(), any.get(), any.size) != 0) return base::errno_error(errno, "reserve a port for MASTER_PORT");
  const int on = 1;
  if (::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0) {
    return base::errno_error(errno, "share the port reserved for MASTER_PORT");
  }
  return fd;
}

}  // namespace muster::agent
