// --expand: replaces {rank}, {host} … in a rank's command. It serves programs that read their number from an argument
// instead of a variable. Pure.
#pragma once

#include <string>
#include <string_view>

namespace muster::model {

struct ExpandValues {
  int rank = 0;
  int local_rank = 0;
  int node_rank = 0;  // index of the host
  int nnodes = 0;
  int size = 0;
  std::string host;         // as in the host list
  std::string master_addr;  // rank 0's host
  int master_port = 0;
};

// Returns `word` with {rank} {local_rank} {node_rank} {nnodes} {size} {host} {master_addr} {master_port} replaced.
// Other braces stay unchanged. {{rank}} stands for the text {rank}.
std::string expand(std::string_view word, const ExpandValues& values);

}  // namespace muster::model
