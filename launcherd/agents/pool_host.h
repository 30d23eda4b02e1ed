// The state of one host of the pool: its agent and its jobs. Private to this folder.
//
// Owner: PoolRoster (pool_roster.h), which never removes a host. So callbacks may hold references to it.
// Thread: loop thread only.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/gate.h"
#include "base/loop.h"
#include "launcherd/agents/agent_channel.h"
#include "launcherd/agents/job_agents.h"
#include "launcherd/agents/output_meter.h"
#include "launcherd/agents/pooled_host_phase.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::launcherd::inline agents {

class PooledAgents;

// One job on one host.
struct PoolSession {
  enum class Phase {
    kWaiting,    // waits for the agent, or for the end of the job's last attempt
    kOpening,    // OpenJob was sent
    kRecalling,  // the agent holds the job and repeats what it has sent about it
    kOpen,
  };
  bool is_held() const { return phase == Phase::kOpen || phase == Phase::kRecalling; }

  PooledAgents* owner = nullptr;
  int agent = 0;  // the host's index in the job
  v1::OpenJob open;
  bool resumes = false;
  bool was_running = false;
  Phase phase = Phase::kWaiting;
  bool has_launched = false;  // from Hello; only in kRecalling
  v1::JobOpened opened;
  std::vector<v1::AgentMessage> history;
  int starts = 0;  // agents started for the job that have not opened it; limited by kMostStarts
};

struct PoolHost {
  BootstrapTarget target;
  bool is_local = false;
  PooledHostPhase phase = PooledHostPhase::kAbsent;  // only HostPool::Core::apply() changes it
  int number = -1;        // the agent's number at the control server; -1 if the host has no agent
  int hello_number = -1;  // the number in the agent's join; differs from `number` after a restart of launcherd
  std::string token;
  AgentUp up;  // what the last agent that was up reported
  std::string problem;
  std::unique_ptr<AgentChannel> link;  // exists until the agent has dialled
  bool has_dialled = false;            // the agent has reported over `link` that it dials
  bool is_requested = false;           // requested without a job; cleared when the agent is up
  int probes = 0;                      // probes in a row that did not show that the agent is gone
  int failures = 0;                    // starts in a row that failed
  base::MonotonicTime last_heard{};
  base::MonotonicTime cut_at{};      // when the agent's last stream was cut
  std::optional<v1::HostLoad> load;  // the last report of the host's agent
  std::shared_ptr<OutputMeter> output = std::make_shared<OutputMeter>();
  std::map<std::string, PoolSession> sessions;  // by job
  std::set<std::string> closing;                // jobs whose Leave was sent or will be sent
  std::set<std::string> unstored;               // jobs in `closing` whose end is not on the disk yet
  base::Timer timer;                            // the timer of the host's phase
  base::Gate phase_gate;                        // closes when the host's phase ends
};

}  // namespace muster::launcherd::agents
