// Sends the agent compressed, by one program on the host: the login shell receives muster-unpack on stdin and runs it,
// and muster-unpack receives the compressed agent and becomes the agent (docs/adr/0064, agent/unpack/main.cc).
//
// The host writes a line before each step, so nothing is sent before a reader is ready:
//   MUSTER-STEP shared              another host with the same file system gets the agent; the program ends
//   MUSTER-STEP send Linux x86_64   send muster-unpack
//   MUSTER-STEP source [WHY]        send a line of agent/unpack/source_line.h, and the compressed agent unless the host
//                                   should fetch it from a seed; WHY: what was wrong with the seed before
//   MUSTER-STEP stored [PORT]       the agent has its name, and begins; PORT: the host serves it there
// Thread, time: as RemoteProgram.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "launcherd/bootstrap/agent_image.h"
#include "launcherd/bootstrap/remote_program.h"
#include "launcherd/bootstrap/seed_board.h"

namespace muster::launcherd::inline bootstrap {

// Finds the words of a step line. A login shell may print other lines, and its text may lack an end before the marker.
// Returns an empty view for every other line. Pure.
std::string_view step_words(std::string_view line);

struct PackedSend {
  bool is_shared = false;  // nothing was sent: wait for the other host
  bool is_stored = false;  // the program is now the agent; only then the failure is none
  std::string system;      // the output of `uname -sm`
};

struct PackedSendOptions {
  std::string host_address = {};          // for the hosts that fetch from this one; empty if unknown
  std::function<void()> on_send = [] {};  // the host is ready for muster-unpack
  std::function<void(const std::string&)> on_note = [](const std::string&) {};  // why a seed was not used
};

// `program` runs packed_command(). A failure has the kind kNoWrite if another way to send the agent may help.
Failure send_packed(RemoteProgram& program, const AgentImage& image, SeedBoard& board, const PackedSendOptions& options,
                    const Waiter& waiter, PackedSend& result);

}  // namespace muster::launcherd::bootstrap
