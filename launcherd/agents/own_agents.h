// The agents of hvdrun: started for one job, and ended with it. KeptAgents lets them serve several generations.
//
// OwnAgents creates the job's control server and output hub, and starts an agent on every host by the
// bootstrap. Then it watches each agent's log-in connection, because an agent ends with that connection.
//
// Owner: a shared_ptr, because threads of the bootstrap and of the hub post to it.
// Thread: loop thread only.
#pragma once

#include <deque>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/loop.h"
#include "launcherd/agents/agent_channel.h"
#include "launcherd/agents/job_agents.h"
#include "launcherd/agents/relay_board.h"
#include "launcherd/output/output_hub.h"
#include "launcherd/service/control_server.h"

namespace muster::launcherd::inline agents {

struct OwnAgentsOptions {
  std::string job_id;
  int attempt = 0;
  std::string agent_link = "auto";  // auto | ssh | dial
  std::string contain = "auto";     // auto | cgroup | pidns | subreaper
  std::chrono::milliseconds lease{15'000};
  // An agent that cannot connect back within this time uses its log-in connection. With agent_link "dial" it ends.
  std::chrono::milliseconds dial_timeout{1'000};
  std::chrono::milliseconds start_timeout{30'000};  // of each generation
  std::string session_root;                         // Empty means each host's own default.
  bool verbose = false;
  bool wants_load = false;      // the agents report how busy their hosts are (HostLoad)
  bool without_gpus = false;    // no rank of the job gets a GPU
  int fanout = kDefaultFanout;  // with more hosts, some agents are relays for others; 0: never
  // The agents serve several generations of the job, one after the other (kept_agents.h). Their owner opens each
  // generation with job_order(), sends all messages with the job's id, and closes the generation with Leave.
  bool is_kept = false;
};

// Adds addresses at which the agent may reach this launcher, except the address that the agent's sshd reports.
void add_launcher_addresses(bool is_local, v1::AgentJoin& join);

// Arguments with which `muster-agent` finds and ends the processes that a dead agent has left of a job.
std::vector<std::string> sweep_arguments(const std::string& job_id, const std::string& session_root);

class OwnAgents final : public JobAgents, public std::enable_shared_from_this<OwnAgents> {
 public:
  // `bootstrap` is borrowed. Hold the object by a shared_ptr, because threads of the bootstrap and of the hub post to
  // it.
  OwnAgents(base::Loop& loop, OwnAgentsOptions options, Bootstrap* bootstrap);

  ~OwnAgents() override;

  // After an error only drop(), cancel_start() and destruction are allowed.
  base::Status start(std::vector<AgentHost> hosts, OutputSink* sink, AgentListener* listener) override;
  base::Status add(AgentHost host) override;
  void start_added(int agent) override { start_added(std::vector<int>{agent}); }
  void start_added(const std::vector<int>& agents);
  void cancel_start() override;
  void send(int agent, v1::LauncherMessage message) override;
  void send_unnumbered(int agent, v1::LauncherMessage message) override;
  void expect_output(int agent, const std::vector<int>& ranks) override;
  void expect_more_output(int agent, const std::vector<int>& ranks) override;
  void output_ends(int agent) override;
  void leave(int agent) override;
  void drop(int agent) override;
  void sweep(int agent, std::function<void(base::Result<CommandResult>)> done) override;

  // The next four are for kept agents. start() begins the first generation.
  // Begins a later generation, to whose sink all output goes from now on. end_generation() must have been called.
  void begin_generation(int attempt, Bootstrap* bootstrap, OutputSink* sink);
  // Ends the generation: its sink gets nothing more.
  void end_generation();
  // Returns the order that opens the present generation on this agent.
  v1::OpenJob job_order(int agent);

 private:
  struct Host {
    AgentHost host;
    std::string token;
    std::string output_secret;  // the key of its output connection; of a kept agent, new for each generation
    AgentUp up;
    std::unique_ptr<AgentChannel> link;
    // The agent's Hello. Set only if it came before the bootstrap's thread reported that the agent runs.
    std::optional<v1::Hello> early_hello;
    base::UniqueFd output_over_ssh;  // the hub's end; passed on when the hub knows the agent's ranks
    bool is_dropped = false;
    bool serves_relay = false;
    // The agent's join. Fulfilled when its way to the launcher is known.
    std::promise<base::Result<std::string>> join{};
    bool has_join = false;
  };

  void add_host(AgentHost host);
  base::Status open_services(OutputSink* sink);
  void begin_starts(const std::vector<int>& agents);
  void settle_join(int agent, base::Result<std::string> join);
  void place(int agent);
  void add_output(OutputSink* sink);
  base::Result<std::string> make_join(int agent, const std::optional<v1::Relay>& parent) const;
  void start_agent(int agent, JoinSource join);
  void bootstrapped(int agent, base::Result<StartedAgent> started);
  void linked(int agent, const LinkChoice& choice, base::UniqueFd control, base::UniqueFd output);
  void on_hello(int agent, const v1::Hello& hello, bool resumed);
  void report_up(int agent, const v1::Hello& hello);
  Host& at(int agent) { return hosts_[static_cast<std::size_t>(agent)]; }
  // Wraps `function` for another thread. `function` then runs on the loop, and only while this object lives.
  template <typename Function>
  auto posted(Function function) {
    return [&loop = loop_, weak = weak_from_this(), function](auto... arguments) {
      loop.post([weak, function, ... arguments = std::move(arguments)]() mutable {
        if (const auto self = weak.lock()) function(*self, std::move(arguments)...);
      });
    };
  }

  base::Loop& loop_;
  OwnAgentsOptions options_;  // begin_generation() changes the attempt
  Bootstrap* bootstrap_;
  AgentListener* listener_ = nullptr;
  std::deque<Host> hosts_;  // a deque, because add() must not move the others
  RelayBoard relays_;
  std::uint16_t output_port_ = 0;
  // Last members: their threads end before anything that they post to. nullptr until start(), and if it has failed.
  std::unique_ptr<ControlServer> control_;
  std::unique_ptr<OutputHub> hub_;
};

}  // namespace muster::launcherd::agents
