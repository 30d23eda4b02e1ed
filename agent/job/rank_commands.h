// Commands that run beside this host's ranks (muster exec, shell and cp). A command gets the environment, working
// directory, CPUs, limits and container of its rank. The warden starts it, so it is in the cgroup and the PID namespace
// of the job, and ends with the job at the latest.
//
// Owner: SessionRanks.
// Thread: the loop thread only.
// Errors: each order is answered by ExecEnded, which says why a command could not start or was ended. An order of a
// launcher that has been replaced gets no answer.
//
// A command is asked to end (SIGHUP and SIGTERM, later SIGKILL) when its rank ends, when its caller leaves, when
// launcherd was replaced, and when no launcher was connected for kOrphanTime.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/io/command_output.h"
#include "agent/io/rank_input.h"
#include "agent/job/command_phase.h"
#include "agent/launch/spawn_request.h"
#include "agent/process/warden_events.h"
#include "base/env.h"
#include "base/gate.h"
#include "base/loop.h"
#include "base/status.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::agent::inline job {

class RankCommands {
 public:
  static constexpr std::size_t kMostCommands = 32;  // of one job on this host, at the same time
  static constexpr std::chrono::seconds kOrphanTime{5};
  static constexpr std::chrono::seconds kPatience{2};  // between SIGTERM and SIGKILL

  struct Events {
    std::function<void(v1::AgentMessage)> send;  // to the launcher
    std::function<base::Status(const SpawnRequest&)> spawn;
    std::function<base::Status(int number, int signo)> signal;
    std::function<int(int rank)> shown;  // the number by which users know the rank
  };

  // `login` outlives this object.
  RankCommands(base::Loop& loop, const base::Environment& login, Events events)
      : loop_(loop), login_(login), events_(std::move(events)) {}
  RankCommands(const RankCommands&) = delete;
  RankCommands& operator=(const RankCommands&) = delete;

  // Keeps how the ranks are started. `requests` are complete, but not yet in containers. `names` are those that
  // put_in_containers() gets.
  void remember(const v1::Launch& launch, const std::vector<std::string>& names,
                const std::vector<SpawnRequest>& requests);

  void order(const v1::ExecOrder& order);
  // Answers an order that cannot be carried out.
  void refuse(std::uint64_t id, const std::string& why);
  void input(const v1::ExecInput& input);
  void control(const v1::ExecControl& control);

  // Events about numbers for which is_command() is true.
  void on_event(RankStarted& started);
  void on_event(RankStartFailed& failed);
  void on_event(RankExited& exited);

  // The rank has ended, or could not start. `how` is text such as "exit code 0".
  void rank_over(int rank, const std::string& how);
  // The warden ends all commands now, because the job is being stopped. Later orders are refused.
  void stopping();
  void stream_is_cut();
  void stream_is_up() { orphan_timer_.cancel(); }
  void launcher_is_new();
  // The warden can no longer report how commands end.
  void lose_all();

  std::size_t size() const { return commands_.size(); }

 private:
  // How a rank was started.
  struct Start {
    SpawnRequest request;
    std::shared_ptr<const v1::Launch> container;  // a Launch of this rank only; null without a container
    std::shared_ptr<const std::vector<std::string>> names;
  };
  struct Command {
    std::uint64_t id = 0;  // of the launcher
    int rank = 0;
    bool has_terminal = false;
    bool has_listener = true;  // false if its caller has left, or its launcher was replaced
    CommandPhase phase = CommandPhase::kStarting;
    std::string why{};  // why it was ended; empty if it was not
    int wait_status = 0;
    std::unique_ptr<RankInput> input{};
    std::string early_input{};  // until it has started
    bool has_early_end = false;
    std::set<int> early_signals{};
    std::optional<v1::WindowSize> early_size{};
    std::unique_ptr<CommandOutput> output{};
    base::Timer overdue{};
  };

  base::Result<SpawnRequest> request_of(const v1::ExecOrder& order) const;
  void on(int number, CommandEvent event);
  void carry_out(CommandAction action, int number, Command& command);
  void end(int number, const std::string& why);
  void end_all(const std::string& why);
  void ask_to_end(int number, Command& command);
  void connect(int number, Command& command, RankStarted& started);
  void resize(Command& command, const v1::WindowSize& size) const;
  void signal(int number, Command& command, int signo);
  void report(const Command& command, v1::ExecEnded ended);
  std::pair<const int, Command>* find(std::uint64_t id);

  base::Loop& loop_;
  const base::Environment& login_;
  const Events events_;
  std::map<int, Start> starts_;      // by rank, of ranks that are not over
  std::map<int, Command> commands_;  // by the warden's number
  int next_number_ = kFirstCommand;
  base::Timer orphan_timer_;
  base::Gate gate_;
};

}  // namespace muster::agent::job
