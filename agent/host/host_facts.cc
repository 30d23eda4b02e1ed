#include "agent/host/host_facts.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>

#include "agent/gpus/gpus.h"
#include "agent/host/topology.h"
#include "base/net.h"
#include "base/strings.h"
#include "model/gpu_mask.h"
#include "proto/convert.h"

namespace muster::agent::inline host {

base::Status fill_host_facts(const base::Environment& login_environment, const gpus::GpuReport& nvidia,
                             v1::Hello& hello) {
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
  MUSTER_ASSIGN_OR_RETURN(model::NodeShape shape, read_node_shape());
  hello.set_gpu_problem(base::valid_utf8(nvidia.problem));
  hello.set_gpu_driver(base::valid_utf8(nvidia.driver));
  shape.gpus = find_gpus(shape, "", nvidia);
  model::set_gpu_masks(login_environment.entries(), shape.gpu_masks);
  proto::set_node_shape(shape, hello);
  return base::ok_status();
}

base::Result<v1::Prepared> find_route(const std::string& master_address) {
  MUSTER_ASSIGN_OR_RETURN(const base::IpAddress master, base::IpAddress::parse(master_address));
  MUSTER_ASSIGN_OR_RETURN(base::IpAddress source, base::route_source(master));
  // For an address of this host itself, the kernel names loopback. Then use the interface that has the address.
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
  // Set SO_REUSEADDR after bind, so that the kernel chooses a port that no process shares. Set it before a rank binds
  // the port.
  if (::bind(fd.get(), any.get(), any.size) != 0) return base::errno_error(errno, "reserve a port for the ranks");
  const int on = 1;
  if (::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0) {
    return base::errno_error(errno, "share the port reserved for the ranks");
  }
  return fd;
}

}  // namespace muster::agent::host
