// Why a host did not start, and the one sentence that says so with the next step. Pure functions, tested by tables.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace muster::launcherd::inline bootstrap {

enum class FailureKind {
  kNone,  // no failure
  kCancelled,
  kNameNotFound,
  kRefused,
  kTimeout,
  kNoRoute,
  kHostKeyChanged,
  kHostKeyUnknown,
  kHostKeyRevoked,
  kAuthRefused,
  kClosed,        // the connection ended during the log-in
  kNoSsh,         // the `ssh` program is needed and cannot be run
  kSshFailed,     // ssh or libssh failed in another way: detail says how
  kAgentMissing,  // not a failure for the user: it is then sent
  kNoSpace,
  kReadOnly,
  kNoWrite,  // the agent's directory cannot be written for another reason
  kNoExec,
  kUnsafeFolder,  // another user could exchange the agent in its directory
  kWrongArch,
  kOtherBuild,
  kNoisyShell,   // the login shell printed something and no agent answered
  kAgentFailed,  // it ended before its first word
};

struct Failure {
  FailureKind kind = FailureKind::kNone;
  std::string host = {};     // as the user wrote it, with user@ if given
  std::string name = {};     // the name alone, as known_hosts has it: [name]:port unless the port is 22
  std::string address = {};  // "10.0.0.1 port 22"; may be empty
  std::string user = {};
  std::string detail = {};        // the system's or the library's words, keys tried, seconds waited: see to_status
  std::string printed = {};       // what the host wrote to stdout before the agent
  std::string errors = {};        // … and to stderr
  int exit_status = -1;           // of the agent or the shell; -1: unknown
  std::string directory = {};     // of the agent on the host
  bool is_before_banner = false;  // sshd may just be busy (MaxStartups): worth another try

  bool ok() const { return kind == FailureKind::kNone; }
};

base::Status to_status(const Failure& failure);
// "refused", "host key changed", …: the class in a few words.
std::string_view failure_words(FailureKind kind);
// What a Waiter returned: ok, cancelled, or a timeout.
Failure wait_failure(const base::Status& waited);

// What the `ssh` program's last words mean; kSshFailed if nothing is recognised.
FailureKind classify_ssh_errors(std::string_view errors);
// ssh's words say that sshd closed the connection before it said its version.
bool is_closed_before_banner(std::string_view errors);
FailureKind classify_errno(int errno_value);

// Why a remote command ended without the marker.
FailureKind classify_agent_end(int exit_status, std::string_view errors, std::string_view printed);
// Why the agent could not be stored (words of head, mkdir, chmod).
FailureKind classify_store_errors(std::string_view errors);

// The line by which ssh says that it accepted a new host key.
bool is_new_host_key_line(std::string_view line);
// Without such lines.
std::string without_ssh_warnings(std::string_view errors);

// The first 200 characters on one line, control characters and escape sequences removed.
std::string quote_for_message(std::string_view text);

}  // namespace muster::launcherd::bootstrap
