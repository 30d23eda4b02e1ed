// Starts an agent on one host over a HostLink. start_on_host() tries the cached agent, sends the agent if the host
// lacks it, and reads the agent's marker. It sends the agent compressed (packed_send.h). If that fails, it sends the
// plain file by SFTP. The steps are the same for libssh and for the `ssh` program.
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
#include "launcherd/bootstrap/seed_board.h"

namespace muster::launcherd::inline bootstrap {

// Lets hosts that share a file system receive the agent only once. If several hosts lack it, one of them is the first.
// The others wait until the first has a temporary file there, and then look for that file. Those that do not see it
// have another file system, and receive the agent at the same time as the first. Thread-safe.
class SendGate {
 public:
  enum class Turn {
    kFirst,      // send the agent; call announce() when the temporary file exists, and then leave()
    kBeside,     // send the agent unless the host has the first one's temporary file or the agent
    kSend,       // send the agent
    kCancelled,  // or the time is over
  };
  // `probed_at` is when the launcher found that the host lacks the agent. Sets `temporary` for kBeside; it is empty if
  // the first has ended.
  Turn enter(base::MonotonicTime probed_at, const Waiter& waiter, std::string& temporary);
  void announce(const std::string& temporary);
  void leave(bool is_sent);
  // Returns once no first is under way. Returns false if it was cancelled, or the time is over.
  bool await_first(const Waiter& waiter);

 private:
  std::mutex mutex_;
  bool is_first_under_way_ = false;  // guarded by mutex_, like the members below
  std::string first_temporary_;
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

// What the hosts of one bootstrap share.
struct SharedSending {
  AgentImage image;
  SendGate gate = {};
  SeedBoard seeds = {};
};

Failure start_on_host(HostLink& link, const HostTask& task, SharedSending& sending, const Waiter& waiter,
                      HostResult& result);

// Reads until the marker of `agent_id`, or returns why no marker came. Earlier lines on stderr go to on_note.
Failure await_marker(RemoteProgram& program, const HostTask& task, const Waiter& waiter);

// Call it after the marker. It waits for the join frame and writes it. `stream` then carries the program's stdin and
// stdout.
Failure hand_over(RemoteProgram& program, const HostTask& task, const Waiter& waiter, base::UniqueFd& stream);

// Returns the output that follows the marker line. Returns all output if it contains no such line.
std::string output_after_marker(std::string_view output);

}  // namespace muster::launcherd::bootstrap
