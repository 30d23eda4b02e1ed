// The environment variables by which a rank of Open MPI (4.1 and 5) finds our PMIx server and leaves nothing behind.
// Pure.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/env.h"

namespace muster::agent::pmix {

struct RankSettingsInput {
  std::string nspace;  // PMIx's name of the rank's world
  std::string server;  // the name of the job; its servers are named after it
  int rank = 0;
  int host = 0;  // index of the rank's host
  std::string host_name;
  std::uint16_t port = 0;     // the server's port on 127.0.0.1
  std::string directory;      // for files of PMIx
  std::string shared_memory;  // directory for shared segments; empty means Open MPI's own choice
  // There are more ranks than processors, so a rank that waits should yield.
  bool is_crowded = false;
  bool has_rdma = false;  // this host has RDMA
};

// `user_set` is the rank's environment so far. A setting that a user may choose is left as the user set it.
std::vector<std::pair<std::string, std::string>> rank_settings(const RankSettingsInput& input,
                                                               const base::Environment& user_set);

// Call this for a host that serves no PMIx. MPI_Init then fails there. Otherwise each rank would become a world of its
// own.
void set_without_server(base::Environment& environment);

// True for a setting that another launcher made for its own ranks, or that would keep Open MPI away from our server.
bool is_in_the_way(std::string_view name);

}  // namespace muster::agent::pmix
