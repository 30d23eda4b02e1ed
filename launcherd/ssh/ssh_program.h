// SshProgramLink runs programs on a host by the `ssh` program. Each remote program is one ssh process without prompt,
// terminal or forwarding. It serves what libssh 0.10 lacks: jump hosts, certificates, hardware keys, Kerberos and
// Match.
#pragma once

#include <string>
#include <vector>

#include "launcherd/bootstrap/pump.h"
#include "launcherd/bootstrap/remote_program.h"

namespace muster::launcherd::inline ssh {

struct SshProgramOptions {
  std::string program = "ssh";
  std::vector<std::string> extra_args;  // e.g. -F FILE
  std::string host;                     // checked already, so ssh cannot take it for an option
  std::string user;                     // empty if ssh decides
  int port = 0;                         // 0 if ssh decides
  std::string identity_file;
  bool accept_new_keys = true;  // false if the configuration sets StrictHostKeyChecking itself
};

// Builds the argument vector. Pure.
std::vector<std::string> ssh_command_line(const SshProgramOptions& options, int connect_timeout_s, bool is_subsystem,
                                          const std::string& what);

// Turns ssh's exit status 255 and its stderr into a Failure. Other statuses come from the remote program, so they are
// no failure.
Failure read_ssh_end(int exit_status, const std::string& errors);

class SshProgramLink final : public HostLink {
 public:
  SshProgramLink(SshProgramOptions options, Pump& pump) : options_(std::move(options)), pump_(pump) {}
  Failure exec(const std::string& command, const Waiter& waiter, std::unique_ptr<RemoteProgram>& program) override;
  Failure subsystem(const std::string& name, const Waiter& waiter, std::unique_ptr<RemoteProgram>& program) override;
  std::string backend() const override { return "ssh"; }

 private:
  Failure spawn(bool is_subsystem, const std::string& what, const Waiter& waiter,
                std::unique_ptr<RemoteProgram>& program);

  SshProgramOptions options_;
  Pump& pump_;
};

}  // namespace muster::launcherd::ssh
