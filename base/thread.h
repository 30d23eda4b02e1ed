// Starts a thread without an exception. std::thread throws at the process limit of a user or a cgroup.
#pragma once

#include <functional>
#include <string>
#include <system_error>
#include <thread>

#include "base/status.h"

namespace muster::base {

// RESOURCE_EXHAUSTED: the system gives no thread; `body` is not called then. Otherwise the caller joins it.
Result<std::thread> start_thread(std::function<void()> body);

// Starts `count` threads at once and ends them again. For before gRPC, which hangs when one of its own cannot be had.
// RESOURCE_EXHAUSTED: fewer are allowed.
Status check_thread_room(int count);

// The same sentence, for the one place in main() that catches what constructors on its thread threw.
std::string thread_failure(const std::system_error& failure);

}  // namespace muster::base
