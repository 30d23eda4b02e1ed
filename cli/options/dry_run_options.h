// --dry-run: shows which rank would run on which host, and starts nothing.
#pragma once

#include <optional>
#include <string>

#include "model/node_shape.h"

namespace muster::cli::inline options {

struct DryRunOptions {
  bool is_on = false;
  bool json = false;
  bool probe = false;  // ask the hosts for their cores and GPUs
  // The assumed shape of every host. nullopt means that only this host's shape is known.
  std::optional<model::NodeShape> assumed_node{};
  // Pattern of names for made-up hosts, used if the user named none (node.names of a template). nullopt if no hosts are
  // made up.
  std::optional<std::string> host_pattern{};
  std::optional<int> host_count{};  // number of made-up hosts; nullopt means as many as the ranks need
};

}  // namespace muster::cli::options
