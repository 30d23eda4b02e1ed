// Starts one agent per host and hands back a byte stream to its stdin and stdout. Nothing here knows what the bytes
// mean.
//
// Implementations: SshBootstrap (libssh, or the `ssh` program where libssh is not enough), LocalBootstrap (this host,
// no ssh), SiteBootstrap (what a site starts programs on its hosts with); make_bootstrap() gives the one that sends
// "localhost" to the second, and everything else to the third where the options say so, else to the first.
//
// Threads: start, run and cancel may be called from any thread and never block on the network; `done` is called exactly
// once per call, on a thread of the bootstrap, or from inside the call when no thread can be had: post to your loop and
// return. Callbacks must
// not call back into the destructor. The owner keeps the object for as long as it uses the streams: the destructor
// cancels what is in flight, ends every agent it started (its stream reads EOF), reaps its processes and joins its
// threads.
//
// What is required of the agent program:
//   agent --stdio                           writes kAgentMarker + build id + '\n' to stdout as its first bytes, then
//   speaks
//                                           over stdin and stdout; EOF on stdin means that the launcher is gone
//   agent --install SHA256 PATH --stdio     first contact: the agent was sent under a temporary name in the directory
//   of
//                                           PATH. It checks that the SHA-256 of its own file is SHA256 (lower-case
//                                           hex), renames itself to PATH (replacing it), then goes on as with the rest
//                                           of the arguments. On failure it removes its temporary file, says why on
//                                           stderr and exits with a status other than 0.
//   agent --join FILE [--host NAME]         the same as --stdio, over a connection to the launcher that FILE names
//   agent ARGS…                             (run) may write the marker line first; the output before it, what a noisy
//                                           login shell printed, is then dropped
//
//   auto bootstrap = make_bootstrap(std::move(options));
//   bootstrap->start({.name = "n1"}, join_frame, [&](base::Result<StartedAgent> agent) { loop.post(…); });
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/net.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace muster::launcherd::inline enrol {
class DialIn;  // dial_in.h
}  // namespace muster::launcherd::enrol

namespace muster::launcherd::inline bootstrap {

inline constexpr std::string_view kAgentMarker = "MUSTER-AGENT 1 ";

// One host, as the user named it.
struct BootstrapTarget {
  std::string
      name;  // a name [A-Za-z0-9_][A-Za-z0-9._-]* or an address literal without brackets; anything else is refused
  std::string user = {};  // empty: the ssh configuration's, else the current user
  int port = 0;           // 0: BootstrapOptions::default_port, else the ssh configuration's, else 22
};

enum class SshBackend { kAuto, kLibssh, kSsh };

// By what agents are started on other hosts.
enum class BootstrapBy { kAuto, kSsh, kSrun, kAprun, kPals, kPbsdsh, kFlux, kJsrun, kManual, kCommand };

enum class FailureKind;  // failure.h

struct BootstrapOptions {
  BootstrapBy by = BootstrapBy::kSsh;  // kAuto is the caller's to settle
  std::string command = {};            // of kCommand: a template with {host} and {cmd}
  // The hosts of the scheduler's allocation around us, in its order, once for each of their slots or chunks.
  std::vector<std::string> allocation = {};
  bool only_allocation = false;          // hosts that are not in it are reached by ssh
  std::string pbs_job = {};              // around us: over ssh agents join it by pbs_attach where that is there
  std::shared_ptr<DialIn> dial_in = {};  // hosts whose agents come by themselves; may be null
  SshBackend backend = SshBackend::kAuto;
  std::string identity_file;  // -i; empty: the ssh configuration's, ssh-agent's and the default keys
  int default_port = 0;       // -p
  std::string agent_path;     // local file: the static agent program, run here or sent
  std::string agent_id;       // build id [A-Za-z0-9._-]+: on the host the file is <agent_dir>/agent-<agent_id>-<arch>
  std::string agent_dir;      // empty: ~/.cache/muster; else absolute or ~/…, of [A-Za-z0-9/._+~-] only
  std::chrono::milliseconds start_timeout{30'000};  // for the whole bootstrap of one host
  int max_parallel = 64;                            // log-ins at a time
  // Progress for --verbose; any thread; may be empty.
  std::function<void(const std::string& host, const std::string& line)> on_note;
  // Why a host did not start, before `done` gets the sentence; any thread; may be empty.
  std::function<void(const BootstrapTarget& target, FailureKind kind)> on_failure;
  // What a started agent prints on stderr, line by line, for as long as it lives, and new host keys that were accepted;
  // any thread; may be empty.
  std::function<void(const std::string& host, const std::string& line)> on_stderr;
};

// What an agent reads from its stdin first. It may become ready while the log-in is under way; whoever made the promise
// keeps it soon, with an error if need be (the host then fails with it), and never abandons it.
using JoinSource = std::shared_future<base::Result<std::string>>;
JoinSource ready_join(base::Result<std::string> join);

struct StartedAgent {
  // SOCK_STREAM, close-on-exec, blocking: reads are the agent's stdout after its marker line, writes its stdin;
  // shutdown or close gives the agent EOF; EOF here: the agent has ended or its connection is lost.
  base::UniqueFd stream;
  // This machine's addresses on the connection, best first; empty if unknown (the `ssh` program, local).
  std::vector<base::IpAddress> launcher_addresses;
  std::optional<base::IpAddress> host_address;  // the host's address on it
  bool agent_sent = false;                      // false: found in the cache
  std::string backend;                          // "libssh", "ssh", "local", "srun", …
};

struct CommandResult {
  int exit_status = 0;  // 128 + signal when a signal ended it
  std::string output;   // stdout, at most kMaxCommandOutput bytes (the rest is dropped)
  std::string errors;   // stderr, likewise
};
inline constexpr std::size_t kMaxCommandOutput = 1u << 20;

class Bootstrap {
 public:
  virtual ~Bootstrap() = default;

  // The hosts of the calls of start() that follow: what starts programs on many hosts at once then does so.
  virtual void expect(const std::vector<BootstrapTarget>& targets) { static_cast<void>(targets); }

  // Starts the agent and writes `join`, verbatim, to its stdin after its marker. The error is one sentence that names
  // the host and the next step.
  virtual void start(const BootstrapTarget& target, JoinSource join,
                     std::function<void(base::Result<StartedAgent>)> done) = 0;

  // Runs the agent (sending it if the host lacks it) with `args`, each of [A-Za-z0-9/._=:,@+-], until it ends. A status
  // other than 0 is a result, not an error. Bounded by start_timeout.
  virtual void run(const BootstrapTarget& target, std::vector<std::string> args,
                   std::function<void(base::Result<CommandResult>)> done) = 0;

  // Every start and run in flight ends soon with CANCELLED, as do later ones; agents that were started live on.
  // Idempotent.
  virtual void cancel() = 0;
};

}  // namespace muster::launcherd::bootstrap
