#include "launcherd/bootstrap/waiter.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <vector>

namespace muster::launcherd::inline bootstrap {
namespace {

constexpr auto kLongest = std::chrono::milliseconds(60'000);

base::Status cancelled() {
  return {base::Code::kCancelled, "cancelled"};
}
base::Status timed_out() {
  return {base::Code::kDeadlineExceeded, "timed out"};
}

base::Status no_descriptors() {
  return {base::Code::kResourceExhausted,
          "this process has no file descriptors left: raise its limit of open files (ulimit -n)"};
}

int poll_timeout(base::MonotonicTime until) {
  const auto now = std::chrono::steady_clock::now();
  if (until <= now) return 0;
  if (until - now >= kLongest) return static_cast<int>(kLongest.count());
  return static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(until - now).count());
}

}  // namespace

base::Status Waiter::wait(std::span<const pollfd> fds, base::MonotonicTime not_after) const {
  if (cancel_fd == kLost) return no_descriptors();
  std::vector<pollfd> all(fds.begin(), fds.end());
  all.push_back({cancel_fd, POLLIN, 0});
  const base::MonotonicTime until = std::min(deadline, not_after);
  for (;;) {
    const int ready = ::poll(all.data(), all.size(), poll_timeout(until));
    if (ready < 0 && errno != EINTR) return base::errno_error(errno, "poll");
    if (ready > 0) {
      if (all.back().revents != 0) return cancelled();
      return {};
    }
    if (std::chrono::steady_clock::now() >= until) return until == deadline ? timed_out() : base::Status();
  }
}

base::Status Waiter::pause(std::chrono::milliseconds time) const {
  return wait({}, std::chrono::steady_clock::now() + time);
}

base::Status Waiter::check() const {
  if (cancel_fd == kLost) return no_descriptors();
  pollfd cancel{cancel_fd, POLLIN, 0};
  if (cancel_fd >= 0 && ::poll(&cancel, 1, 0) > 0) return cancelled();
  return std::chrono::steady_clock::now() >= deadline ? timed_out() : base::Status();
}

std::chrono::milliseconds Waiter::left() const {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return std::max(left, std::chrono::milliseconds(0));
}

CancelSource::CancelSource() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

base::Status CancelSource::status() const {
  return event_.valid() ? base::ok_status() : no_descriptors();
}

void CancelSource::cancel() {
  if (!event_.valid()) return;
  const std::uint64_t one = 1;
  // write fails only if the counter is about to overflow. The fd is readable then anyway.
  if (::write(event_.get(), &one, sizeof one) < 0) MUSTER_CHECK(errno == EAGAIN);
}

}  // namespace muster::launcherd::bootstrap
