#include "agent/job/session_lease.h"

#include <algorithm>
#include <chrono>

namespace muster::agent::inline job {
namespace {

constexpr std::chrono::milliseconds kLeaseStep{100};  // the warden gets the lease no more often than this

}  // namespace

std::optional<base::MonotonicTime> SessionLease::renew(base::MonotonicTime now) {
  last_heard_ = now;
  if (!is_running() || now - last_sent_ < std::min<base::Duration>(kLeaseStep, length_ / 8)) return std::nullopt;
  last_sent_ = now;
  return now + length_;
}

std::optional<base::MonotonicTime> SessionLease::suspend(bool is_on, base::MonotonicTime now) {
  is_suspended_ = is_on;
  if (!is_running()) return std::nullopt;
  last_sent_ = {};
  return renew(now);
}

}  // namespace muster::agent::job
