// From a way to run programs on a host to an agent that runs there: try the cached one, send it where it is missing,
// read its marker. The same for libssh and the `ssh` program.
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

// Sends the agent once per file system: of the hosts that lack it one sends, the others wait and look again; those that
// still lack it then send at the same time. Thread-safe.
class SendGate {
 public:
  enum class Turn { kSend, kLookAgain, kCancelled };
  // `looked_at`: when the host was found to lack the agent. After kSend, call leave().
  Turn enter(base::MonotonicTime looked_at, const Waiter& waiter);
  void leave(bool is_sent);

 private:
  std::mutex mutex_;
  bool is_first_under_way_ = false;  // guarded by mutex_, as is the rest
  std::optional<base::MonotonicTime> first_sent_at_;
  std::condition_variable changed_;
};

struct HostTask {
  std::string agent_id;
  RemotePaths paths;
  std::vector<std::string> args;  // {"--stdio"} for an agent that stays
  bool is_run = false;            // collect its output instead
  JoinSource join;                // of an agent that stays
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

// Reads until the marker of `agent_id` or the reason why there is none. Lines that came on stderr before it: on_note.
Failure await_marker(RemoteProgram& program, const HostTask& task, const Waiter& waiter);

// After the marker: waits for the join and writes it; the program's stdin and stdout are then `stream`.
Failure hand_over(RemoteProgram& program, const HostTask& task, const Waiter& waiter, base::UniqueFd& stream);

// What follows the marker line in the output of a program that was run; all of it if there is no such line.
std::string output_after_marker(std::string_view output);

}  // namespace muster::launcherd::bootstrap
