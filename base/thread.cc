#include "base/thread.h"

#include <future>
#include <system_error>
#include <utility>
#include <vector>

#include "base/thread_room.h"

namespace muster::base {

Result<std::thread> start_thread(std::function<void()> body) {
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error& failure) {
    return base::resource_exhausted("{}", thread_failure(failure));
  }
}

Status check_thread_room(int count) {
  if (limits_leave_room(count)) return ok_status();  // twenty threads take more than a millisecond
  std::promise<void> end;
  const std::shared_future<void> ended = end.get_future().share();
  std::vector<std::thread> threads;
  Status status;
  while (status.ok() && static_cast<int>(threads.size()) < count) {
    auto thread = start_thread([ended] { ended.wait(); });
    status = thread.status();
    if (thread.ok()) threads.push_back(std::move(*thread));
  }
  end.set_value();
  for (std::thread& thread : threads) thread.join();
  return status;
}

std::string thread_failure(const std::system_error& failure) {
  return fmt::format("cannot start a thread ({}): raise the limit of processes (ulimit -u, pids.max) or end some",
                     failure.code().message());
}

}  // namespace muster::base
