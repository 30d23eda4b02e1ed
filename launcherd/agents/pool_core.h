// The inside of HostPool: its state and all its steps. Private to this folder.
//
// host_pool.cc: services, the state file, and agents that are up, cut and lost.
// pool_starts.cc: agents that are being started.
// pool_sessions.cc: jobs on agents.
// pool_keys.cc: certificates.
// pooled_agents.cc: a job's view.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "launcherd/agents/agent_channel.h"
#include "launcherd/agents/host_pool.h"
#include "launcherd/agents/link_keys.h"
#include "launcherd/agents/output_meter.h"
#include "launcherd/agents/ping_turns.h"
#include "launcherd/service/control_server.h"
#include "proto/muster/v1/pool.pb.h"

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
  PooledAgents* owner = nullptr;
  int agent = 0;  // the host's index in the job
  v1::OpenJob open;
  bool resumes = false;
  bool was_running = false;
  Phase phase = Phase::kWaiting;
  bool has_launched = false;  // from Hello; only in kRecalling
  v1::JobOpened opened;
  std::vector<v1::AgentMessage> history;
  int starts = 0;  // agents that were lost before they opened the job
};

struct PoolHost {
  enum class Phase {
    kNone,
    kStarting,  // the bootstrap starts the agent
    kJoining,   // the agent runs but has not sent Hello
    kAwaited,   // an agent of the last launcherd may come back
    kUp,
    kFailed,  // could not be started; tried again after a pause
  };
  BootstrapTarget target;
  bool is_local = false;
  Phase phase = Phase::kNone;
  int number = -1;        // its number at the control server; -1 if it has no agent
  int hello_number = -1;  // the number in its join; differs after a restart of launcherd
  std::string token;
  AgentUp up;  // what the last agent that was up reported
  std::string problem;
  std::unique_ptr<AgentChannel> link;  // exists until the agent has dialled
  bool has_dialled = false;            // the agent has reported over `link` that it dials
  bool has_stream = false;
  bool is_suspect = false;
  bool is_looked_at = false;
  bool is_asked = false;       // requested without a job; cleared when the agent is up
  bool is_dismissed = false;   // the agent must end, because launcherd leaves
  bool has_next_keys = false;  // the agent has the next authority's certificate, if there is one
  int looks = 0;               // probes in a row that did not find it gone
  int failures = 0;            // starts in a row that failed
  base::MonotonicTime last_heard{};
  base::MonotonicTime cut_at{};      // when its last stream was cut
  std::optional<v1::HostLoad> load;  // the last report of its agent
  std::shared_ptr<OutputMeter> output = std::make_shared<OutputMeter>();
  std::map<std::string, PoolSession> sessions;  // by job
  std::set<std::string> closing;                // jobs whose Leave was sent or will be sent
  std::set<std::string> unstored;               // those of `closing` whose end is not on the disk yet
  base::Timer look_timer;                       // armed while it has no stream
  base::Timer retry_timer;
};

class HostPool::Core : public std::enable_shared_from_this<HostPool::Core> {
 public:
  Core(base::Loop& loop, const base::Clock& clock, HostPoolOptions options, Bootstrap* bootstrap);
  ~Core();

  base::Status start();

  // pool_sessions.cc. Reports to the session's `owner` by its pool_* functions until detach().
  void attach(const AgentHost& host, const std::string& job, PoolSession session);
  // Sends Leave, now or when the agent is back.
  void detach(const BootstrapTarget& target, const std::string& job);
  void send(const BootstrapTarget& target, const std::string& job, v1::LauncherMessage message, bool is_numbered);
  void sweep(const BootstrapTarget& target, const std::string& job,
             std::function<void(base::Result<CommandResult>)> done);
  void forget_other_jobs();
  void let_go(base::Loop::Task done);

  // Returns the meter of the job's output. The pool counts as long as the meter lives.
  std::shared_ptr<OutputMeter> job_meter(const std::string& job);
  std::shared_ptr<OutputMeter> host_meter(const BootstrapTarget& target) { return host_at(target).output; }
  std::optional<std::int64_t> output_rate(const std::string& job) const;

  void ask(const AgentHost& host);

  PoolHostView view(const BootstrapTarget& target) const;
  v1::AgentState state(const BootstrapTarget& target) const;
  const HostPoolOptions& options() const { return options_; }
  OutputHub& hub() { return *hub_; }
  base::Loop& loop() { return loop_; }
  int control_port() const { return control_->port(); }
  std::size_t agents() const { return control_->agents(); }
  int output_port() const { return state_.output_port(); }

 private:
  // host_pool.cc
  base::Status load_state();
  base::Status make_keys();
  base::Status open_ports();
  base::Status open_services();
  void await_agents();
  base::Status save_state();
  void save_soon();
  PoolHost& host_at(const BootstrapTarget& target);
  PoolHost* host_numbered(int number) const;
  // Stores the agent's token and its number at the control server.
  void number_agent(PoolHost& host, const std::string& token, int number, int hello_number);
  void forget_agent(PoolHost& host);
  void said_hello(PoolHost& host, const v1::Hello& hello, bool resumed);
  void was_cut(PoolHost& host);
  void give_up(PoolHost& host);
  void look_later(PoolHost& host, base::Duration after);
  void look(PoolHost& host);
  void looked(PoolHost& host, const base::Result<CommandResult>& result);
  void agent_lost(PoolHost& host, const std::string& why);
  void dismiss(PoolHost& host);
  bool is_any_dismissed() const;
  void tell_gone();
  void tick();
  void sample_output(base::MonotonicTime now);
  void changed(const PoolHost& host);
  void note(const std::string& line);

  // pool_starts.cc
  base::Result<std::string> make_join(PoolHost& host);
  void start_agent(PoolHost& host);
  void start_announced();
  void bootstrap(PoolHost& host);
  void bootstrapped(PoolHost& host, int number, base::Result<StartedAgent> started);
  void start_failed(PoolHost& host, const std::string& message);

  // pool_keys.cc
  void renew_keys(base::MonotonicTime now);
  bool all_have_next() const;
  void offer_keys(PoolHost& host);

  // pool_sessions.cc
  void take_up_sessions(PoolHost& host, const v1::Hello& hello);
  void open(PoolHost& host, const std::string& job, PoolSession& session);
  void send_leave(PoolHost& host, const std::string& job);
  void leave_when_stored(PoolHost& host, const std::string& job);
  void stored(PoolHost& host, const std::string& job);
  void said(PoolHost& host, const v1::AgentMessage& message);
  void session_said(PoolHost& host, PoolSession& session, const v1::AgentMessage& message);
  void session_up(PoolHost& host, PoolSession& session);
  void closed_by_agent(PoolHost& host, const std::string& job);
  void fail_sessions(PoolHost& host, const std::string& message);
  void lose_sessions(PoolHost& host, const std::string& why);

  base::Loop& loop_;
  const base::Clock& clock_;
  const HostPoolOptions options_;
  Bootstrap* const bootstrap_;
  const std::string instance_;
  v1::PoolState state_;           // without agents and keys, which save_state() adds
  std::optional<LinkKeys> keys_;  // set by start()
  base::MonotonicTime keys_again_{};
  std::map<std::string, std::unique_ptr<PoolHost>> hosts_;  // by user, name and port; entries are never removed
  std::map<std::string, std::weak_ptr<OutputMeter>> job_meters_;
  std::unordered_map<int, PoolHost*> by_number_;  // the host with this number at the control server
  std::vector<int> announced_;                    // numbers of agents that start once the state file lists them
  bool is_save_due_ = false;
  bool forgets_others_ = false;
  bool lets_go_ = false;
  base::Loop::Task gone_;
  base::Timer gone_timer_;
  base::Timer tick_timer_;
  PingTurns ping_turns_;
  // Last members: their threads end before anything that they post to.
  std::unique_ptr<ControlServer> control_;
  std::unique_ptr<OutputHub> hub_;
};

}  // namespace muster::launcherd::agents
