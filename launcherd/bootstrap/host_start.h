// Starts an agent on one host over a HostLink. start_on_host() tries the cached agent, sends the agent if the host
// lacks it, and reads the agent's marker. The steps are the same for libssh and for the `ssh` program.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "launcherd/bootstrap/agent_image.h"
#include "launcherd/bootstrap/bootstrap.h"
#include "launcherd/bootstrap/remote_command.h"
#include "launcherd/bootstrap/remote_program.h"

namespace muster::launcherd::inline bootstrap {

// Lets hosts that share a file system send the agent only once. If several hosts lack it, one host sends it while the
// others wait. The others then probe again. Those that still lack it all send it at the same time. Thread-safe.
class SendGate {
 public:
  enum class Turn { kSend, kProbeAgain, kCancelled };
  // `probed_at` is when the launcher found that the host lacks the agent. Call leave() after kSend.
  Turn enter(base::MonotonicTime probed_at, const Waiter& waiter);
  void leave(bool is_sent);

 private:
  std::mutex mutex_;
  bool is_first_under_way_ = false;  // guarded by mutex_, like the members below
  std::optional<base::MonotonicTime> first_sent_at_;
  std::condition_variable changed_;
};

struct HostTask {
  std::string agent_id;
  RemotePaths paths;
  std::vector<std::string> args;  // {"--stdio"} for an agent that stays
  bool is_run = false;            // true to run the program to its end and collect its output
  JoinSource join;                // only for an agent that stays
  std::function<void(const std::string& line)> on_note;
  std::function<void(const std::string& line)> on_stderr;
};

struct HostResult {
  base::UniqueFd stream;
  ProgramResult run;
  bool agent_sent = false;
};

Failure start_on_host(HostLink& link, const HostTask& task, const AgentImage& image, SendGate& gate,
                      const Waiter& waiter, HostResult& result);

// Reads until the marker of `agent_id`, or returns why no marker came. Earlier lines on stderr go to on_note.
Failure await_marker(RemoteProgram& program, const HostTask& task, const Waiter& waiter);

// Call it after the marker. It waits for the join frame and writes it. `stream` then carries the program's stdin and
// stdout.
Failure hand_over(RemoteProgram& program, const HostTask& task, const Waiter& waiter, base::UniqueFd& stream);

// Returns the output that follows the marker line. Returns all output if it contains no such line.
std::string output_after_marker(std::string_view output);

}  // namespace muster::launcherd::bootstrap
