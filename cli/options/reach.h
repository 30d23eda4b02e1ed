// Holds how hosts are reached, and how their agents contain the ranks.
#pragma once

#include <string>

#include "launcherd/agents/relays_among.h"
#include "launcherd/bootstrap/bootstrap.h"

namespace muster::cli::inline options {

struct Reach {
  // The options set by, command, backend, identity_file, default_port, agent_dir and start_timeout. settle_bootstrap()
  // adds the allocation.
  launcherd::BootstrapOptions bootstrap{};
  std::string agent_link = "auto";  // auto | ssh | dial
  int fanout = launcherd::kDefaultFanout;
  std::string contain = "auto";  // auto | cgroup | pidns | subreaper
  // --launcher: "auto", or the address of the launcherd that runs the job. Empty means that hvdrun runs it itself.
  std::string launcher{};
};

}  // namespace muster::cli::options
