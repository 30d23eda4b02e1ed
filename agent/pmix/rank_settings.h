// What a rank of Open MPI (4.1 and 5) must find in its environment to come to our PMIx server, and to leave nothing
// behind. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/env.h"

namespace muster::agent::pmix {

struct RankSettingsInput {
  std::string nspace;  // name of the rank's world for PMIx
  std::string server;  // name of the job, by which its servers are called
  int rank = 0;
  int host = 0;  // index of its host
  std::string host_name;
  std::uint16_t port = 0;     // of 127.0.0.1, where the server is
  std::string directory;      // for files of PMIx
  std::string shared_memory;  // directory for segments; empty: Open MPI's own choice
  bool is_crowded = false;    // more ranks than processors: who waits should give way
  bool has_rdma = false;      // this host
};

// `user_set`: the rank's environment so far; settings that are a user's to make are left as he made them.
std::vector<std::pair<std::string, std::string>> rank_settings(const RankSettingsInput& input,
                                                               const base::Environment& user_set);

// On a host that serves no PMIx: MPI_Init fails there, instead of making each rank a world of its own.
void set_without_server(base::Environment& environment);

// True for a setting that another launcher has made for its own ranks, or by which Open MPI would not come to ours.
bool is_in_the_way(std::string_view name);

}  // namespace muster::agent::pmix
