// The warm agents of a launcherd: one a host, started by the bootstrap when the first job wants the host, kept until it
// had no job for a while, and found again by the launcherd that comes after this one. Jobs use them through
// JobAgents (pooled_agents.h).
//
// What is needed to find agents again lies in `state_file` (proto PoolState; secret, 0600), written before an agent is
// started: authority, ports, tokens. Agents come back to the same ports by themselves; one that does not is looked for
// by the bootstrap, and only if nothing of it lives there it counts as gone.
//
// Agents connect to this machine; a host that cannot is an error of its start: jobs that outlive a launcherd cannot
// live in a log-in of its.
//
// Loop thread only. Borrowed things outlive the pool, the pool outlives what it made.
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
#include "launcherd/bootstrap/bootstrap.h"
#include "launcherd/output/output_hub.h"
#include "proto/muster/v1/launcher.pb.h"

namespace muster::launcherd::inline agents {

struct HostPoolOptions {
  std::string state_file;
  std::string session_root;                         // MUSTER_TMPDIR; empty: each host's own
  std::chrono::milliseconds idle_timeout{600'000};  // without a job an agent ends; 0: never
  std::chrono::milliseconds lease{600'000};         // without a launcherd an agent ends
  bool verbose = false;
  std::function<void(const std::string& line)> on_note;   // for --verbose; may be empty
  std::function<void(const std::string& line)> on_line;   // for launcherd's log; any thread; may be empty
  std::function<void(const BootstrapTarget&)> on_change;  // this host's agent is in another state; may be empty
  // Calls back, on the loop, when all that jobs have recorded until now is on the disk: only then an agent forgets a
  // job that has ended. Empty: nothing is recorded.
  std::function<void(base::Loop::Task)> when_stored;
};

// How an agent fares, for views. `hello` is that of the last agent that was up; without a job_id: none was.
struct PoolHostView {
  v1::AgentState state = v1::AGENT_STATE_NONE;
  std::string problem;
  v1::Hello hello;
  int jobs = 0;
  std::optional<v1::HostLoad> load;         // of one that is up
  std::optional<std::int64_t> output_rate;  // of one that is up: bytes a second
  std::uint64_t output_bytes = 0;           // since the pool was started
};

struct PooledJob {
  std::string job_id;
  int attempt = 0;
  std::string contain = "auto";
  std::chrono::milliseconds lease{600'000};
  bool hold = true;    // ranks go on without launcherd
  std::string secret;  // of this attempt, 16 bytes or more
  // An earlier launcherd had begun the attempt; `was_running`: and ranks of it have been started.
  bool resumes = false;
  bool was_running = false;
  // By agent, of output that is in the sink already: the last frame, and the ranks that have written all.
  std::function<ExpectedAgent(ExpectedAgent)> with_past{};  // may be empty
};

class HostPool {
 public:
  // UNAVAILABLE: the ports that agents know are taken. DATA_LOSS: the state file is not one.
  static base::Result<std::unique_ptr<HostPool>> start(base::Loop& loop, const base::Clock& clock,
                                                       HostPoolOptions options, Bootstrap* bootstrap);
  ~HostPool();

  std::shared_ptr<JobAgents> agents_for(PooledJob job);

  // Its agent is started if there is none, as for a job: `on_change` tells when it is up, or cannot be started.
  void ask(const AgentHost& host);

  // Of a host that no job has wanted yet: AGENT_STATE_NONE.
  PoolHostView view(const BootstrapTarget& target) const;
  // Bytes a second that the job's ranks write; nullopt: it has no agents.
  std::optional<std::int64_t> output_rate(const std::string& job) const;
  v1::AgentState state(const BootstrapTarget& target) const;  // of its view, for less
  // After the jobs of the last launcherd were taken up: agents hold no others for us, what they hold is ended.
  void forget_other_jobs();

  // Before this launcherd leaves: jobs that are given up from now on are not ended, the next one finds them. Agents
  // without a job end; `done` when they have, or have not within a moment.
  void let_go(base::Loop::Task done);

  int control_port() const;
  // Agents that are up, or may come.
  std::size_t agents() const;

  class Core;

 private:
  explicit HostPool(std::shared_ptr<Core> core);
  std::shared_ptr<Core> core_;
};

}  // namespace muster::launcherd::agents
