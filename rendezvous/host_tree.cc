#include "rendezvous/host_tree.h"

#include <cstdint>

namespace muster::rendezvous {

bool HostTree::has_children(int host) const {
  return static_cast<std::int64_t>(host) * fanout + 1 < hosts;
}

int HostTree::child_towards(int above, int host) const {
  while (host > above) {
    const int next = parent(host);
    if (next == above) return host;
    host = next;
  }
  return -1;
}

}  // namespace muster::rendezvous
