// The data and services that the classes of the pool share. Private to this folder.
//
// Owner: HostPool::Core, which creates it first and destroys it last.
// Thread: loop thread only.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "launcherd/agents/host_pool.h"
#include "launcherd/agents/pool_file.h"
#include "launcherd/agents/pool_roster.h"
#include "launcherd/agents/relay_board.h"
#include "launcherd/service/control_server.h"

namespace muster::launcherd::inline agents {

struct PoolParts {
  static constexpr std::chrono::seconds kRelayPatience{15};

  PoolParts(base::Loop& loop_in, const base::Clock& clock_in, HostPoolOptions options_in, Bootstrap* bootstrap_in)
      : loop(loop_in),
        clock(clock_in),
        options(std::move(options_in)),
        bootstrap(bootstrap_in),
        file(loop, options.state_file, roster),
        relays(loop, options.fanout, kRelayPatience) {}

  void note(const std::string& line) const {
    if (options.on_note) options.on_note(line);
  }
  void report_change(const PoolHost& host) const {
    if (options.on_change) options.on_change(host.target);
  }
  void save_soon() {
    file.save_soon([this](const base::Status& status) { note(status.message()); });
  }

  base::Loop& loop;
  const base::Clock& clock;
  const HostPoolOptions options;
  Bootstrap* const bootstrap;
  PoolRoster roster;
  PoolFile file;
  RelayBoard relays;       // by the agents' numbers
  bool is_ending = false;  // launcherd is ending: start no agents, and close no jobs
  // Moves the host to its next phase and does the action. `why` is the reason of a failure or a loss.
  std::function<void(PoolHost& host, PooledHostEvent event, const std::string& why)> apply;
  std::unique_ptr<ControlServer> control;  // last member: its threads end before anything that they post to
};

}  // namespace muster::launcherd::agents
