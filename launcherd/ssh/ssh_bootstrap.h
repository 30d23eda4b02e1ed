// SshBootstrap starts agents on other hosts. It chooses libssh or the `ssh` program for each host, logs in, and starts
// the agent by host_start. While sshd is too busy it logs in again after growing pauses with jitter.
// Thread, owner: see bootstrap.h.
#pragma once

#include <string>
#include <vector>

#include "launcherd/bootstrap/agent_image.h"
#include "launcherd/bootstrap/bootstrap.h"
#include "launcherd/bootstrap/host_start.h"
#include "launcherd/bootstrap/pump.h"
#include "launcherd/bootstrap/worker_pool.h"
#include "launcherd/ssh/libssh_session.h"
#include "launcherd/ssh/ssh_config.h"
#include "launcherd/ssh/ssh_program.h"

namespace muster::launcherd::inline ssh {

// The ssh configuration to use. Tests have their own.
struct SshSurroundings {
  std::string home;
  std::string user;  // the local user
  std::string user_config;
  std::string system_config;
  std::string known_hosts;         // default of UserKnownHostsFile
  std::string global_known_hosts;  // default of GlobalKnownHostsFile
  std::string ssh_program = "ssh";
  std::vector<std::string> ssh_args;      // precede all other arguments
  static SshSurroundings of_this_user();  // reads the password database, as ssh does
};

class SshBootstrap final : public Bootstrap {
 public:
  // make_bootstrap() has already checked `options`.
  SshBootstrap(BootstrapOptions options, AgentImage image, SshSurroundings surroundings);
  ~SshBootstrap() override;

  // With many hosts, some of them serve the agent to the others.
  void expect(const std::vector<BootstrapTarget>& targets) override { sending_.seeds.expect(targets.size()); }
  void start(const BootstrapTarget& target, JoinSource join,
             std::function<void(base::Result<StartedAgent>)> done) override;
  void run(const BootstrapTarget& target, std::vector<std::string> args,
           std::function<void(base::Result<CommandResult>)> done) override;
  void cancel() override { cancel_.cancel(); }

 private:
  struct Plan {  // says how to log in to one host
    std::string display;
    std::string connect_to;
    SshLogin login;
    SshProgramOptions ssh;
    std::string needs_ssh;    // why libssh cannot be used; empty if it can
    bool may_ask_ssh = true;  // true to try the `ssh` program after a refusal
  };
  struct Outcome {
    HostResult result;
    StartedAgent agent;
  };

  Plan make_plan(const BootstrapTarget& target) const;
  Failure start_host(const BootstrapTarget& target, HostTask& task, Outcome& outcome);
  Failure start_once(const Plan& plan, const HostTask& task, const Waiter& waiter, Outcome& outcome);
  Failure start_by_libssh(const Plan& plan, const HostTask& task, const Waiter& waiter, Outcome& outcome,
                          bool& may_ask_ssh);
  Failure start_by_ssh(const Plan& plan, const HostTask& task, const Waiter& waiter, Outcome& outcome);
  base::Status failed(const BootstrapTarget& target, const Failure& failure) const;
  base::Result<HostTask> make_task(const BootstrapTarget& target, std::vector<std::string> args) const;

  const BootstrapOptions options_;
  const SshSurroundings surroundings_;
  CancelSource cancel_;
  SharedSending sending_;
  Pump pump_;
  WorkerPool workers_;  // last, because its threads use all members above
};

// Returns why libssh cannot serve a host with this configuration and these files. Empty means that it can. Reads files.
std::string why_ssh_is_needed(const SshHostConfig& config, const SshSurroundings& surroundings,
                              const std::vector<std::string>& identity_files);

}  // namespace muster::launcherd::ssh
