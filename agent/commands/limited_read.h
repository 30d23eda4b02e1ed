// Runs a read on a thread of its own, and gives up if it takes too long. For reads that block for as long as another
// process hangs in the kernel.
//
// The thread cannot be ended. It ends with this process, so use this only in a process that ends soon.
#pragma once

#include <chrono>
#include <future>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>

namespace muster::agent::inline commands {

// Begins to read. `read` owns what it uses.
template <typename Read>
std::future<std::invoke_result_t<Read>> begin_read(Read read) {
  std::packaged_task<std::invoke_result_t<Read>()> task(std::move(read));
  auto result = task.get_future();
  std::thread(std::move(task)).detach();
  return result;
}

// Returns what `read` returns. nullopt if it has not returned within `limit`. `read` owns what it uses.
template <typename Read>
std::optional<std::invoke_result_t<Read>> read_within(std::chrono::milliseconds limit, Read read) {
  auto result = begin_read(std::move(read));
  if (result.wait_for(limit) != std::future_status::ready) return std::nullopt;
  return result.get();
}

}  // namespace muster::agent::commands
