// Sends and receives the first bytes on the stream of an enrolled agent. Blocking: call from a bootstrap's helper
// threads.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "launcherd/bootstrap/waiter.h"

namespace muster::launcherd::inline enrol {

// Reads the marker line, and no byte after it. `name` is the host's name, for the message.
base::Status await_marker_line(int stream, const std::string& agent_id, const std::string& name, const Waiter& waiter);

base::Status send_all(int stream, std::string_view bytes, const Waiter& waiter);

}  // namespace muster::launcherd::enrol
