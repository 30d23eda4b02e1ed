// A Bootstrap starts one agent per host and returns a byte stream to the agent's stdin and stdout. Nothing in this
// folder interprets the bytes of that stream.
//
// Implementations:
//   SshBootstrap    uses libssh, or the `ssh` program for features that libssh lacks
//   LocalBootstrap  starts the agent on this host, without ssh
//   SiteBootstrap   uses the site's own launcher, such as srun
// make_bootstrap() returns a Bootstrap that chooses one of these for each host. If the host's agent has dialled in, it
// uses that agent (BootstrapOptions::dial_in). Otherwise "localhost" goes to LocalBootstrap. All other hosts go to
// SiteBootstrap if the options say so, else to SshBootstrap.
//
// Thread: any thread may call start, run and cancel. They never block on the network. The bootstrap calls `done`
// exactly once per call, on one of its own threads. If it cannot start a thread, it calls `done` inside the call. So
// `done` must only post to your loop and return. Callbacks must not call the destructor.
//
// Owner: keep the object for as long as you use the streams. The destructor cancels all calls in flight and ends every
// agent that it started. Their streams then read EOF. It also reaps its processes and joins its threads.
//
// The agent program must accept these arguments:
//   agent --stdio
//       It first writes kAgentMarker + build id + '\n' to stdout. Then it speaks over stdin and stdout.
//       EOF on stdin means that the launcher is gone.
//   agent --install SHA256 PATH --stdio
//       The launcher uses this form after it sent the file under a temporary name to the directory of PATH. The agent
//       checks that the SHA-256 of its own file is SHA256 (lower-case hex). Then it renames itself to PATH, which may
//       replace a file, and continues with the remaining arguments. On failure it removes its temporary file, writes
//       the reason to stderr and exits with a status other than 0.
//   agent --fresh --stdio
//       muster-unpack starts it so, after it has checked and stored the agent.
//   agent --join FILE [--host NAME]
//       Like --stdio, but the agent connects to the launcher whose addresses are in FILE.
//   agent ARGS…
//       run() uses this form. The agent may write the marker line first. The launcher then drops the output before that
//       line, because a noisy login shell printed it.
//
// Example:
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
  // A name [A-Za-z0-9_][A-Za-z0-9._-]*, or an address literal without brackets. Other names are refused.
  std::string name;
  std::string user = {};  // empty means the ssh configuration's user, else the current user
  int port = 0;           // 0 means BootstrapOptions::default_port, else the ssh configuration's port, else 22
};

enum class SshBackend { kAuto, kLibssh, kSsh };

// Options that say how agents are started on other hosts.
enum class BootstrapBy { kAuto, kSsh, kSrun, kAprun, kPals, kPbsdsh, kFlux, kJsrun, kManual, kCommand };

enum class FailureKind;  // failure.h

struct BootstrapOptions {
  BootstrapBy by = BootstrapBy::kSsh;  // the caller must replace kAuto before make_bootstrap()
  std::string command = {};            // only for kCommand: a template with {host} and {cmd}
  // The hosts of the surrounding scheduler allocation, in its order. A host appears once per slot or chunk.
  std::vector<std::string> allocation = {};
  bool only_allocation = false;  // true if `by` applies to hosts of the allocation only, and ssh reaches the others
  // Id of the surrounding PBS job. Agents started over ssh join it by pbs_attach, if the host has that program.
  std::string pbs_job = {};
  std::shared_ptr<DialIn> dial_in = {};  // holds agents that connect by themselves; may be null
  SshBackend backend = SshBackend::kAuto;
  // Set by the option -i. Empty means the keys of the ssh configuration, the keys of ssh-agent, and the default keys.
  std::string identity_file;
  int default_port = 0;    // option -p
  std::string agent_path;  // local file of the static agent program, which is run here or sent to hosts
  // The build id of the agent program, of the characters [A-Za-z0-9._-] only. On a host, the program's path is
  // <agent_dir>/agent-<agent_id>-<arch>.
  std::string agent_id;
  // Empty means ~/.cache/muster. Else an absolute path or ~/…, of the characters [A-Za-z0-9/._+~-] only.
  std::string agent_dir;
  std::chrono::milliseconds start_timeout{30'000};  // limit for the whole bootstrap of one host
  int max_parallel = 64;                            // number of log-ins at the same time
  // Receives progress lines for --verbose. Any thread. May be empty.
  std::function<void(const std::string& host, const std::string& line)> on_note;
  // Receives the reason why a host did not start, before `done` gets the error sentence. Any thread. May be empty.
  std::function<void(const BootstrapTarget& target, FailureKind kind)> on_failure;
  // Receives each line that a started agent writes to stderr, for as long as the agent lives. Also receives newly
  // accepted host keys. Any thread. May be empty.
  std::function<void(const std::string& host, const std::string& line)> on_stderr;
};

// The frame that an agent reads first from its stdin. It may become ready while the log-in is in progress. The owner of
// the promise must fulfil it soon and must never abandon it. If the frame is an error, the host fails with that error.
using JoinSource = std::shared_future<base::Result<std::string>>;
JoinSource ready_join(base::Result<std::string> join);

struct StartedAgent {
  // A blocking, close-on-exec SOCK_STREAM socket. Reads return the agent's stdout after its marker line. Writes go to
  // its stdin. Shutdown or close sends EOF to the agent. EOF here means that the agent ended or its connection is
  // lost.
  base::UniqueFd stream;
  // This machine's addresses on the connection, best first. Empty if unknown: with the `ssh` program and local agents.
  std::vector<base::IpAddress> launcher_addresses;
  std::optional<base::IpAddress> host_address;  // the host's address on the connection; nullopt if unknown
  bool agent_sent = false;                      // false if the host had the agent in its cache
  std::string backend;                          // "libssh", "ssh", "local", "srun", …
};

struct CommandResult {
  int exit_status = 0;  // 128 + signal if a signal ended the program
  std::string output;   // stdout, at most kMaxCommandOutput bytes; the rest is dropped
  std::string errors;   // stderr, with the same limit
};
inline constexpr std::size_t kMaxCommandOutput = 1u << 20;

class Bootstrap {
 public:
  virtual ~Bootstrap() = default;

  // Announces the hosts for which start() will be called. Launchers like srun then start all of them at once.
  virtual void expect(const std::vector<BootstrapTarget>& targets) { static_cast<void>(targets); }

  // Starts the agent, and writes `join` verbatim to its stdin after its marker. The error is one sentence that names
  // the host and the next step.
  virtual void start(const BootstrapTarget& target, JoinSource join,
                     std::function<void(base::Result<StartedAgent>)> done) = 0;

  // Runs the agent with `args` until it ends, and sends the agent first if the host lacks it. Arguments may hold only
  // [A-Za-z0-9/._=:,@+-]. An exit status other than 0 is a result, not an error. start_timeout limits the whole call.
  virtual void run(const BootstrapTarget& target, std::vector<std::string> args,
                   std::function<void(base::Result<CommandResult>)> done) = 0;

  // Makes all calls of start and run end soon with CANCELLED, both calls in flight and later calls. Agents that are
  // already started live on. Idempotent.
  virtual void cancel() = 0;
};

}  // namespace muster::launcherd::bootstrap
