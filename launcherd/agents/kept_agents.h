// The agents of hvdrun for a job that may start again. An agent lives as long as the job uses its host, so the next
// generation needs no log-in, no new connection and no new keys (docs/adr/0051).
//
// Each generation is one job of the agent: OpenJob starts it, and Leave ends it. The agent answers JobClosed when
// nothing of the generation is left on the host. Only then OpenJob for the next generation is sent. So the processes,
// the session directory, the stores and the output key of a generation are its own.
//
// An agent is not kept, and its log-in is closed, in these cases:
// - It has ended, the job dropped it, or the next generation does not use its host.
// - Its control connection is cut when the next generation begins.
// - It is linked through ssh, because such an agent can carry the output of only one job.
// - It has not closed the last generation within kCloseTime (5 s) after the next one began.
// - It has refused the next generation, or has not opened it within kOpenTime (5 s) after OpenJob was sent. Both times
//   are longer by kTimePerAgent (10 ms) for each agent of the generation. Neither exceeds a quarter of the job's start
//   timeout, so that a new agent has the other half.
// - The start of its generation was cut short, because the bootstrap can start no more agents then.
// The host then gets a new agent if the generation uses it. So an agent that fails to begin a later generation does not
// fail the host, unless the start is cut short. A new agent that does not begin its first generation fails the host.
//
// An agent's lease needs a message of the launcher from time to time. While a generation runs on the agent, the
// generation pings it. At other times KeptAgents does.
//
// kept_agent_phase.h has the table of an agent's phases.
//
// Owner: a shared_ptr of RestartingJob.
// Thread: loop thread only.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/loop.h"
#include "launcherd/agents/kept_agent_phase.h"
#include "launcherd/agents/own_agents.h"
#include "launcherd/agents/ping_turns.h"

namespace muster::launcherd::inline agents {

class KeptAgents final : private JobAgents, private AgentListener, public std::enable_shared_from_this<KeptAgents> {
 public:
  // An agent may take this long to end what is left of a generation whose ranks are gone.
  static constexpr std::chrono::seconds kCloseTime{5};
  // An agent may take this long from OpenJob to JobOpened. It forks once and makes a directory for that.
  static constexpr std::chrono::seconds kOpenTime{5};
  // The launcher itself needs time for each agent, and its loop may handle the answers late. On a busy machine it
  // needed 10 ms for each of 500 agents (bench/generation_sim).
  static constexpr std::chrono::milliseconds kTimePerAgent{10};
  // Agents that no generation pings are pinged once a tenth of the lease, but not more often than this. More than 1,000
  // agents take turns.
  static constexpr std::chrono::milliseconds kPingPeriod{500};

  // Returns the bootstrap of one attempt, which is borrowed for as long as an agent of it is used. Called only for the
  // first attempt, and for an attempt that needs a new one.
  using BootstrapOf = std::function<Bootstrap*(int attempt)>;

  // Hold the object by a shared_ptr.
  KeptAgents(base::Loop& loop, OwnAgentsOptions options, BootstrapOf bootstrap_of);

  // Returns the agents of one generation. Its release ends the generation, and must come before the next call.
  std::shared_ptr<JobAgents> of_attempt(int attempt);

 private:
  using Phase = KeptAgentPhase;
  using Event = KeptAgentEvent;
  static constexpr int kNobody = -1;

  // The index in agents_ is the agent's number in own_.
  struct Agent {
    AgentHost host;
    Phase phase = Phase::kStarting;
    int index = kNobody;  // in the present generation; set if is_used(phase)
    bool has_stream = false;
    bool has_reported_start = false;  // the generation knows that an agent of this host runs
    AgentUp up{};
    base::Timer limit{};  // the timer of its phase
  };

  // JobAgents, by the index of the generation.
  base::Status start(std::vector<AgentHost> hosts, OutputSink* sink, AgentListener* listener) override;
  void cancel_start() override;
  void send(int agent, v1::LauncherMessage message) override;
  void send_unnumbered(int agent, v1::LauncherMessage message) override;
  void expect_output(int agent, const std::vector<int>& ranks) override;
  void expect_more_output(int agent, const std::vector<int>& ranks) override;
  void output_ends(int agent) override;
  void leave(int agent) override;
  void drop(int agent) override;
  void sweep(int agent, std::function<void(base::Result<CommandResult>)> done) override;

  // AgentListener, by the number in own_.
  void agent_started(int number) override;
  void agent_up(int number, AgentUp up) override;
  void agent_failed(int number, const std::string& message) override;
  void agent_message(int number, const v1::AgentMessage& message) override;
  void agent_stream(int number, bool is_there) override;
  void agent_gone(int number, const base::Status& status) override;
  void agent_unreadable(int number) override;
  void output_complete(int number) override;
  void output_cut(int number) override;
  void output_failed(const base::Status& status) override;
  void note(const std::string& line) override;
  void warn(const std::string& line) override;

  base::Status start_first(std::vector<AgentHost> hosts, OutputSink* sink);
  void start_next(std::vector<AgentHost> hosts, OutputSink* sink);
  bool may_keep() const;
  std::map<std::string, int> reusable() const;
  int add_agent(AgentHost host, int index);
  void begin_taken();
  // Does the step of the table for this event. `why` is the reason of an event that ends the agent or its start. It
  // names the host only if the event is kFailStart.
  void apply(int number, Event event, const base::Status& why = base::ok_status());
  void act(int number, int index, KeptAgentAction action, const base::Status& why);
  void send_open(int number);
  void send_leave(int number);
  void opened(int number, const v1::JobOpened& opened);
  void report_started(int number);
  void report_up(int number);
  void limit(int number, std::chrono::milliseconds time, const std::string& what);
  void replace(int number, int index, const base::Status& why);
  void start_replacements();
  void let_go(int number);
  void end_generation();
  void ping_agents();
  bool is_any_starting() const;
  Agent& at(int number) { return agents_[static_cast<std::size_t>(number)]; }
  int number_of(int agent) const { return numbers_[static_cast<std::size_t>(agent)]; }

  base::Loop& loop_;
  const OwnAgentsOptions options_;
  const BootstrapOf bootstrap_of_;
  int attempt_ = 0;
  Bootstrap* bootstrap_ = nullptr;     // nullptr if its starts were cancelled, or if own_ could not begin
  AgentListener* listener_ = nullptr;  // nullptr between two generations
  std::deque<Agent> agents_;           // a deque, because callbacks may add agents
  std::vector<int> numbers_;           // by the index of the generation
  std::vector<int> replacements_;      // numbers of new agents that start together
  PingTurns ping_turns_;
  base::Timer ping_timer_;
  base::Timer begin_timer_;
  base::Timer replace_timer_;
  std::shared_ptr<OwnAgents> own_;  // nullptr before the first generation
};

}  // namespace muster::launcherd::agents
