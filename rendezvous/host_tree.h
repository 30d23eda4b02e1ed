// The tree of a job's hosts, by which keys and fences reach rank 0's host without one connection for each host. Host 0
// is the root. The children of host i are the hosts i * fanout + 1 to i * fanout + fanout. A job with at most `fanout`
// other hosts is a star.
//
// Pure values; any thread.
#pragma once

namespace muster::rendezvous {

// A job of more hosts than this uses a tree, unless the user chose another number.
inline constexpr int kDefaultStoreFanout = 64;

struct HostTree {
  int hosts = 1;
  int fanout = kDefaultStoreFanout;

  bool is_valid() const { return hosts > 0 && fanout > 0; }
  bool has(int host) const { return host >= 0 && host < hosts; }
  int parent(int host) const { return (host - 1) / fanout; }  // of any host except 0
  bool has_children(int host) const;
  // Returns the child of `above` whose subtree has `host`. -1 if `host` is not below `above`.
  int child_towards(int above, int host) const;
};

}  // namespace muster::rendezvous
