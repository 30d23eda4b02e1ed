#include "base/thread.h"

#include <system_error>
#include <utility>

namespace muster::base {

Result<std::thread> start_thread(std::function<void()> body) {
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error& failure) {
    return error(Code::kResourceExhausted, "{}", thread_failure(failure));
  }
}

std::string thread_failure(const std::system_error& failure) {
  return fmt::format("cannot start a thread ({}): raise the limit of processes (ulimit -u, pids.max) or end some",
                     failure.code().message());
}

}  // namespace muster::base
