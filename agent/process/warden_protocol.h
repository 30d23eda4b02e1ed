// The messages between agent and warden, in both directions, carried by MessageSocket. Plain functions.
#pragma once

#include <chrono>
#include <string>
#include <variant>

#include "agent/launch/spawn_request.h"
#include "agent/process/message_socket.h"
#include "agent/process/warden_events.h"
#include "base/status.h"

namespace muster::agent::inline process {

struct SignalCommand {
  int rank = -1;
  int signo = 0;
};
struct StopCommand {
  std::chrono::milliseconds grace{};
};
struct FinishCommand {
  std::chrono::milliseconds patience{};
};
struct PauseCommand {
  bool on = false;
};
struct LeaveCommand {};

using WardenCommand = std::variant<SpawnRequest, SignalCommand, StopCommand, FinishCommand, PauseCommand, LeaveCommand>;

// The warden's first message. It says that the warden is set up, or why it cannot be set up at this level.
struct WardenReady {
  bool is_ok = false;
  std::string error;  // set if not is_ok
  pid_t pid = 0;      // the warden's pid as the agent sees it
  Containment containment;
  std::string cgroup_path;  // empty if there is no cgroup
};

std::string encode(const WardenCommand& command);
base::Result<WardenCommand> decode_command(const std::string& payload);

std::string encode(const WardenReady& ready);
base::Result<WardenReady> decode_ready(const std::string& payload);

// The descriptors of RankStarted move into the message.
SocketMessage encode(WardenEvent event);
base::Result<WardenEvent> decode_event(SocketMessage message);

}  // namespace muster::agent::process
