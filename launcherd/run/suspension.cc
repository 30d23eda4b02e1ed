#include "launcherd/run/suspension.h"

#include <algorithm>
#include <utility>

namespace muster::launcherd::inline run {

Suspension::Suspension(HostRoster& hosts, PhaseTimers& timers, Send send)
    : hosts_(hosts), timers_(timers), send_(std::move(send)) {}

void Suspension::order(bool on, base::Loop::Task done) {
  is_on_ = on;
  // If the user continues before all agents have answered, their late answers must not stop the launcher.
  timers_.cancel(JobTimer::kSuspend);
  done_ = nullptr;
  bool is_any_reachable = false;
  for (JobHost& host : hosts_) {
    if (host.phase != HostPhase::kLaunched) continue;
    is_any_reachable = is_any_reachable || host.has_stream;
    v1::LauncherMessage message;
    message.mutable_suspend()->set_on(on);
    ++host.suspends_due;
    send_(host.agent, std::move(message));
  }
  if (done == nullptr) return;
  done_ = std::move(done);
  if (is_any_reachable) timers_.start(JobTimer::kSuspend, std::chrono::seconds(1), [this] { finish(); });
  if (!timers_.is_armed(JobTimer::kSuspend)) finish();  // no agent can answer, or the job is over
}

void Suspension::answered(JobHost& host) {
  host.suspends_due = std::max(0, host.suspends_due - 1);
  const bool is_any_due = std::ranges::any_of(hosts_, [](const JobHost& other) {
    return other.has_stream && other.phase == HostPhase::kLaunched && other.suspends_due > 0;
  });
  if (is_any_due) return;
  timers_.cancel(JobTimer::kSuspend);
  finish();
}

void Suspension::finish() {
  if (done_) std::exchange(done_, nullptr)();
}

}  // namespace muster::launcherd::run
