// The agents of hvdrun: started for one job, and ended with it.
//
// OwnAgents creates the job's certificates, control server and output hub, and starts an agent on every host by the
// bootstrap. Then it watches each agent's log-in connection, because an agent ends with that connection.
//
// Owner: a shared_ptr, because threads of the bootstrap and of the hub post to it.
// Thread: loop thread only.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/loop.h"
#include "base/tls.h"
#include "launcherd/agents/agent_channel.h"
#include "launcherd/agents/job_agents.h"
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
  std::string session_root;  // Empty means each host's own default.
  bool verbose = false;
  bool without_gpus = false;  // no rank of the job gets a GPU
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

 private:
  struct Host {
    AgentHost host;
    std::string token;
    AgentUp up;
    std::unique_ptr<AgentChannel> link;
    // The agent's Hello. Set only if it came before the bootstrap's thread reported that the agent runs.
    std::optional<v1::Hello> early_hello;
    base::UniqueFd output_over_ssh;  // the hub's end; passed on when the hub knows the agent's ranks
    bool is_dropped = false;
  };

  base::Result<std::vector<std::string>> open_services(OutputSink* sink);
  base::Result<std::string> make_join(int agent, const std::string& ca_pem, const base::TlsIdentity& identity) const;
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
  const OwnAgentsOptions options_;
  Bootstrap* const bootstrap_;
  AgentListener* listener_ = nullptr;
  std::vector<Host> hosts_;
  std::uint16_t output_port_ = 0;
  // Last members: their threads end before anything that they post to.
  std::unique_ptr<ControlServer> control_;
  std::unique_ptr<OutputHub> hub_;
};

}  // namespace muster::launcherd::agents
