// The inside of HostPool: its services, and the life of each host by the table of pooled_host_phase.h. Private to this
// folder.
//
// Owner: HostPool.
// Thread: loop thread only.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/gate.h"
#include "launcherd/agents/host_pool.h"
#include "launcherd/agents/ping_turns.h"
#include "launcherd/agents/pool_meters.h"
#include "launcherd/agents/pool_parts.h"
#include "launcherd/agents/pool_sessions.h"
#include "launcherd/agents/pool_starts.h"

namespace muster::launcherd::inline agents {

class HostPool::Core {
 public:
  Core(base::Loop& loop, const base::Clock& clock, HostPoolOptions options, Bootstrap* bootstrap);

  base::Status start();

  void ask(const AgentHost& host);
  void let_go(base::Loop::Task done);

  PoolHostView view(const BootstrapTarget& target) const;
  v1::AgentState state(const BootstrapTarget& target) const;
  std::uint64_t output_bytes(const BootstrapTarget& target) const;
  std::optional<std::int64_t> output_rate(const std::string& job) const { return meters_.rate_of_job(job); }
  int control_port() const { return parts_.control->port(); }
  std::size_t agents() const { return parts_.control->agents(); }

  // PooledAgents uses the functions from here to the next blank line.
  PoolSessions& sessions() { return sessions_; }
  OutputHub& hub() { return *hub_; }
  base::Loop& loop() { return parts_.loop; }
  const HostPoolOptions& options() const { return parts_.options; }
  int output_port() { return parts_.file.state().output_port(); }
  std::shared_ptr<OutputMeter> job_meter(const std::string& job) { return meters_.of_job(job, parts_.clock.now()); }
  std::shared_ptr<OutputMeter> host_meter(const BootstrapTarget& target) { return parts_.roster.at(target).output; }

 private:
  base::Status open_ports();
  void route_events();
  void await_agents();

  // Moves the host to its next phase, then does the action. Ignores an event that has no meaning in the host's phase.
  void apply(PoolHost& host, PooledHostEvent event, const std::string& why = {});
  void act(PoolHost& host, PooledHostAction action, const std::string& why);

  void on_hello(PoolHost& host, const v1::Hello& hello, bool resumed);
  void on_message(PoolHost& host, const v1::AgentMessage& message);
  void forget_agent(PoolHost& host);
  void agent_up(PoolHost& host);
  void start_failed(PoolHost& host, const std::string& message);
  void lose_agent(PoolHost& host, const std::string& why);
  void drop_agent(PoolHost& host);
  void dismiss(PoolHost& host);

  void probe_later(PoolHost& host, base::Duration after);
  void probe(PoolHost& host);
  void probed(PoolHost& host, const base::Result<CommandResult>& result);

  bool must_any_end() const;
  void report_end();
  void tick();

  PoolParts parts_;
  PoolStarts starts_;
  PoolSessions sessions_;
  PoolMeters meters_;
  const std::string instance_;
  base::Loop::Task ended_;  // the `done` of let_go()
  base::Timer end_timer_;
  base::Timer tick_timer_;
  PingTurns ping_turns_;
  std::unique_ptr<OutputHub> hub_;
  base::Gate gate_;
};

}  // namespace muster::launcherd::agents
