// What agent and warden say to each other, as messages of MessageSocket. Both directions; plain functions.
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

// First message of the warden: it is set up, or why it cannot be at this level.
struct WardenReady {
  bool is_ok = false;
  std::string error;  // !is_ok
  pid_t pid = 0;      // of the warden, as the agent sees it
  Containment containment;
  std::string cgroup_path;  // empty: none
};

std::string encode(const WardenCommand& command);
base::Result<WardenCommand> decode_command(const std::string& payload);

std::string encode(const WardenReady& ready);
base::Result<WardenReady> decode_ready(const std::string& payload);

// The descriptors of RankStarted move into the message.
SocketMessage encode(WardenEvent event);
base::Result<WardenEvent> decode_event(SocketMessage message);

}  // namespace muster::agent::process
