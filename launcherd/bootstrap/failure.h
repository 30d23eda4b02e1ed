// A Failure says why a host did not start. to_status() turns it into one sentence with the next step.
// Pure functions, tested by tables.
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
  kSshFailed,     // ssh or libssh failed in another way; `detail` says how
  kAgentMissing,  // internal: the launcher then sends the agent
  kNoSpace,
  kReadOnly,
  kNoWrite,  // the agent's directory is not writable for another reason
  kNoExec,
  kUnsafeFolder,  // another user could exchange the agent in its directory
  kWrongArch,
  kOtherBuild,
  kNoisyShell,   // the login shell printed text, and no agent answered
  kAgentFailed,  // the agent ended before it wrote its marker
};

struct Failure {
  FailureKind kind = FailureKind::kNone;
  std::string host = {};  // as the user wrote it, with user@ if given
  // The name alone, as known_hosts has it: [name]:port, unless the port is 22.
  std::string name = {};
  std::string address = {};  // "10.0.0.1 port 22"; may be empty
  std::string user = {};
  std::string detail = {};        // error text of the system or library, keys tried, or seconds waited; see to_status
  std::string printed = {};       // what the host wrote to stdout before the agent's marker
  std::string errors = {};        // what the host wrote to stderr before the agent's marker
  int exit_status = -1;           // exit status of the agent or the shell; -1 if unknown
  std::string directory = {};     // the agent's directory on the host
  bool is_before_banner = false;  // true if sshd may only be busy (MaxStartups), so try again

  bool ok() const { return kind == FailureKind::kNone; }
};

base::Status to_status(const Failure& failure);
// Names the kind of failure in a few words: "refused", "host key changed", …
std::string_view failure_words(FailureKind kind);
// Converts the result of a Waiter into no failure, kCancelled or kTimeout.
Failure wait_failure(const base::Status& waited);

// Classifies the `ssh` program's last error lines. Returns kSshFailed if it recognises nothing.
FailureKind classify_ssh_errors(std::string_view errors);
// True if ssh reports that sshd closed the connection before it sent its version.
bool is_closed_before_banner(std::string_view errors);
FailureKind classify_errno(int errno_value);

// Finds out why a remote command ended without writing the marker.
FailureKind classify_agent_end(int exit_status, std::string_view errors, std::string_view printed);
// Finds out why the agent could not be stored, from the messages of head, mkdir and chmod.
FailureKind classify_store_errors(std::string_view errors);

// True for the line by which ssh reports that it accepted a new host key.
bool is_new_host_key_line(std::string_view line);
// Returns `errors` without the warnings that ssh itself prints.
std::string without_ssh_warnings(std::string_view errors);

// Returns the first 200 characters on one line, without control characters and escape sequences.
std::string quote_for_message(std::string_view text);

}  // namespace muster::launcherd::bootstrap
