// Starts a thread without an exception. std::thread throws at the process limit of a user or a cgroup.
#pragma once

#include <functional>
#include <string>
#include <system_error>
#include <thread>

#include "base/status.h"

namespace muster::base {

// Runs `body` on a new thread, which the caller must join. RESOURCE_EXHAUSTED if the system allows no thread; then
// nothing calls `body`.
Result<std::thread> start_thread(std::function<void()> body);

// Call it before gRPC, which hangs if it cannot start one of its threads. RESOURCE_EXHAUSTED if fewer than `count` more
// threads are allowed. Unless the limits tell that there is room, it starts them and ends them again.
Status check_thread_room(int count);

// Returns the message for a failure to start a thread. main() prints it if a constructor on the main thread throws one.
std::string thread_failure(const std::system_error& failure);

}  // namespace muster::base
