// The TCP sockets of processes, from /proc/PID/fd and the tables in /proc/PID/net.
//
// Thread: any. Plain values. Reading does not wait for the processes. The tables of a host with many connections are
// long, so use SocketTables in a process of its own.
// Errors: what cannot be read is missing. The content of the tables is not trusted: malformed lines are left out.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/net.h"

namespace muster::agent::inline proc {

struct TcpSocket {
  base::IpAddress local;
  std::uint16_t local_port = 0;
  base::IpAddress peer;
  std::uint16_t peer_port = 0;  // 0 for listening sockets
  bool is_listening = false;    // if false, it is connected
  std::uint64_t inode = 0;
};

// Parses the content of /proc/net/tcp or tcp6. Returns only sockets that listen or are connected.
std::vector<TcpSocket> parse_tcp_table(std::string_view content);

// Returns the inodes of all sockets that the process has open. Empty if it has ended or belongs to another user.
std::set<std::uint64_t> socket_inodes(pid_t pid);

// True if the process has the socket with this inode open.
bool has_socket(pid_t pid, std::uint64_t inode);

// The tables of this moment. Each network namespace's is read once.
class SocketTables {
 public:
  // Returns the TCP sockets of the process that listen or are connected.
  std::vector<TcpSocket> of(pid_t pid);

 private:
  std::map<std::string, std::vector<TcpSocket>> by_namespace_;
};

}  // namespace muster::agent::proc
