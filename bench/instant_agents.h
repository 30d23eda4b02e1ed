// The agents of a job, simulated without connections: a JobAgents whose agents answer each message at once, on the
// launcher's own loop. So a benchmark measures what the launcher does between a message that has arrived and a message
// that it sends.
//
// Owner: the job's runner. The benchmark keeps a reference to end the ranks.
// Thread: loop thread only.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/loop.h"
#include "launcherd/agents/job_agents.h"

namespace muster::bench {

struct InstantAgentsOptions {
  int cores = 0;           // in each Hello
  bool is_grouped = true;  // agents report groups of ranks (RanksStarted, RanksExited)
};

class InstantAgents final : public launcherd::JobAgents, public std::enable_shared_from_this<InstantAgents> {
 public:
  InstantAgents(base::Loop& loop, InstantAgentsOptions options) : loop_(loop), options_(options) {}

  // Connects all agents, one after the other.
  void connect();
  // All ranks end with exit code 0.
  void end_ranks();

  std::size_t launch_bytes() const { return launch_bytes_; }
  std::size_t largest_launch() const { return largest_launch_; }
  std::size_t pings() const { return pings_; }

  base::Status start(std::vector<launcherd::AgentHost> hosts, launcherd::OutputSink* sink,
                     launcherd::AgentListener* listener) override;
  void cancel_start() override {}
  void send(int agent, v1::LauncherMessage message) override;
  void send_unnumbered(int agent, v1::LauncherMessage message) override;
  void expect_output(int, const std::vector<int>&) override {}
  void output_ends(int) override {}
  void leave(int) override {}
  void drop(int) override {}
  void sweep(int, std::function<void(base::Result<launcherd::CommandResult>)> done) override;

 private:
  struct Host {
    std::string name;
    std::vector<int> ranks;
  };

  void up(int agent);
  void launch(int agent, const v1::Launch& launch);
  void exit(int agent, bool is_stopped);
  void answer(int agent, std::vector<v1::AgentMessage> messages);
  v1::Hello hello_of(int agent) const;

  base::Loop& loop_;
  const InstantAgentsOptions options_;
  launcherd::AgentListener* listener_ = nullptr;
  std::vector<Host> hosts_;
  std::size_t launch_bytes_ = 0;
  std::size_t largest_launch_ = 0;
  std::size_t pings_ = 0;
};

}  // namespace muster::bench
