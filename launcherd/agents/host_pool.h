// The idle agents of a launcherd, one a host. Jobs use them through JobAgents (pooled_agents.h).
//
// The bootstrap starts an agent when the first job requests its host. The pool keeps the agent until it has had no job
// for a while. The next launcherd finds it again.
//
// `state_file` (proto PoolState; secret, mode 0600) holds the authority, the ports and the tokens. The pool writes it
// before it starts an agent. Agents reconnect to the same ports by themselves. If an agent does not, the bootstrap
// before it starts an agent. Agents reconnect to the same ports by themselves. If an agent does not reconnect, the
// bootstrap searches its host. The agent counts as gone only if that search finds no process of it.
// Agents must be able to connect to this machine. If one cannot, its start fails: jobs that outlive a launcherd cannot
// depend on a log-in of that launcherd.
//
// Owner: Daemon. What it borrows must outlive the pool. The pool must outlive the JobAgents that it creates.
// Thread: loop thread only.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/loop.h"
#include "base/status.h"
#include "launcherd/agents/job_agents.h"
#include "launcherd/agents/relays_among.h"
#include "launcherd/bootstrap/bootstrap.h"
#include "launcherd/output/output_hub.h"
#include "proto/muster/v1/launcher.pb.h"

namespace muster::launcherd::inline agents {

struct HostPoolOptions {
  std::string state_file;
  std::string session_root;                         // MUSTER_TMPDIR; empty means each host's own default
  std::chrono::milliseconds idle_timeout{600'000};  // an agent without a job ends after this; 0 means never
  std::chrono::milliseconds lease{600'000};         // an agent without a launcherd ends after this
  bool verbose = false;
  int fanout = kDefaultFanout;                            // with more agents, some are relays for others; 0: never
  std::function<void(const std::string& line)> on_note;   // for --verbose; may be empty
  std::function<void(const std::string& line)> on_line;   // for launcherd's log; any thread; may be empty
  std::function<void(const BootstrapTarget&)> on_change;  // the agent of this host has another state; may be empty
  std::function<void(const BootstrapTarget&, const v1::HostLoad&)> on_load;  // an agent has reported; may be empty
  // Runs the task on the loop once everything that jobs have recorded so far is on the disk. Only then may an agent
  // forget a job that has ended. Empty means that nothing is recorded.
  std::function<void(base::Loop::Task)> when_stored;
};

// The state of one agent, for views. `hello` is from the last agent that was up. hello.job_id is empty if none was.
struct PoolHostView {
  v1::AgentState state = v1::AGENT_STATE_NONE;
  std::string problem;
  v1::Hello hello;
  int jobs = 0;
  std::optional<v1::HostLoad> load;         // nullopt if the agent is not up
  std::optional<std::int64_t> output_rate;  // bytes a second; nullopt if the agent is not up
  std::uint64_t output_bytes = 0;           // since the pool was started
};

struct PooledJob {
  std::string job_id;
  int attempt = 0;
  std::string contain = "auto";
  std::chrono::milliseconds lease{600'000};
  bool hold = true;    // ranks continue without launcherd
  std::string secret;  // secret of this attempt, at least 16 bytes
  // `resumes`: an earlier launcherd began this attempt. `was_running`: that launcherd also started ranks of the
  // attempt.
  bool resumes = false;
  bool was_running = false;
  // Adds to the agent what the sink already has from it: the last frame, and the ranks whose output is complete.
  // Returns the result. An empty function adds nothing.
  std::function<ExpectedAgent(ExpectedAgent)> with_past{};
};

class HostPool {
 public:
  // UNAVAILABLE: another process uses the ports that agents know. DATA_LOSS: the state file is corrupt.
  static base::Result<std::unique_ptr<HostPool>> start(base::Loop& loop, const base::Clock& clock,
                                                       HostPoolOptions options, Bootstrap* bootstrap);
  ~HostPool();

  std::shared_ptr<JobAgents> agents_for(PooledJob job);

  // Starts an agent on the host, as for a job, unless the host has one. `on_change` reports when the agent is up or
  // cannot be started.
  void ask(const AgentHost& host);

  // Returns AGENT_STATE_NONE for a host that no job has requested yet.
  PoolHostView view(const BootstrapTarget& target) const;
  // Returns how many bytes a second the job's ranks write. nullopt if the job has no agents.
  std::optional<std::int64_t> output_rate(const std::string& job) const;
  v1::AgentState state(const BootstrapTarget& target) const;        // the same as view().state, at less cost
  std::uint64_t output_bytes(const BootstrapTarget& target) const;  // the same as view().output_bytes, at less cost
  // Ends all jobs that agents hold but that this launcherd does not know. Call it once the jobs of the last launcherd
  // are resumed.
  void forget_other_jobs();

  // Prepares for the end of this launcherd. From now on, dropping a job does not end it on its agents, so that the next
  // launcherd finds it there. Agents without a job end. `done` runs when they have ended, or after 2 s.
  void let_go(base::Loop::Task done);

  int control_port() const;
  // Returns the number of agents that are up or may still connect.
  std::size_t agents() const;

  class Core;

 private:
  explicit HostPool(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

}  // namespace muster::launcherd::agents
