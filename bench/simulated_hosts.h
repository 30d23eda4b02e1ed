// Hosts of one job, simulated in this process, as a Bootstrap: start() makes an agent that answers like one whose every
// step succeeds at once. Each agent has its own connection by the real control client (agent/link).
// It has no processes. Its ranks behave like those of a program on libmuster: when they hear of a peer's end, they ask
// for new numbers at once.
//
// Thread: all agents share one loop on a thread of its own. kill_host() and fail_rank() may be called from any thread.
// on_answered is called on that thread.
// Destruction: ends all agents.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/loop.h"
#include "launcherd/bootstrap/bootstrap.h"

namespace muster::bench {

class SimulatedHost;

class SimulatedHosts final : public launcherd::Bootstrap {
 public:
  using Clock = std::chrono::steady_clock;
  struct Events {
    // BeginGeneration of this generation has arrived at all hosts that live, so their agents have answered their ranks.
    std::function<void(int generation, Clock::time_point at)> on_answered;
  };

  static base::Result<std::unique_ptr<SimulatedHosts>> make(Events events);
  ~SimulatedHosts() override;

  void start(const launcherd::BootstrapTarget& target, launcherd::JoinSource join,
             std::function<void(base::Result<launcherd::StartedAgent>)> done) override;
  // The search for processes that a lost agent has left. It finds none.
  void run(const launcherd::BootstrapTarget& target, std::vector<std::string> args,
           std::function<void(base::Result<launcherd::CommandResult>)> done) override;
  void cancel() override {}

  // The agent and its ranks die, and the log-in connection ends.
  void kill_host(const std::string& name);
  // The first rank of this host ends with exit code 1.
  void fail_rank(const std::string& name);

 private:
  friend class SimulatedHost;
  struct Waiting;

  explicit SimulatedHosts(Events events);
  void start_waiting();
  void welcomed();
  void began(int generation);
  void left(const std::string& name);

  const Events events_;
  base::Loop loop_;
  // The next members belong to the loop thread.
  std::vector<Waiting> waiting_;
  int dialling_ = 0;
  std::map<std::string, std::unique_ptr<SimulatedHost>> hosts_;
  int generation_ = 0;
  int answered_ = 0;  // hosts that have got BeginGeneration of generation_
  std::thread thread_;
};

}  // namespace muster::bench
