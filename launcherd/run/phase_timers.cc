#include "launcherd/run/phase_timers.h"

#include <utility>

namespace muster::launcherd::inline run {
namespace {

// The first and the last phase of a timer. The timer continues through the phases between both.
struct PhaseRange {
  JobPhase first;
  JobPhase last;
};

PhaseRange phases_of(JobTimer timer) {
  switch (timer) {
    case JobTimer::kStart:
    case JobTimer::kWaiting:
    case JobTimer::kGather:
      return {JobPhase::kConnecting, JobPhase::kPreparing};
    case JobTimer::kEarlyStop:
      return {JobPhase::kSharing, JobPhase::kSharing};
    case JobTimer::kStaged:
      return {JobPhase::kStaging, JobPhase::kStaging};
    case JobTimer::kLaunch:
      return {JobPhase::kLaunching, JobPhase::kLaunching};
    case JobTimer::kRun:
    case JobTimer::kLive:
      return {JobPhase::kLaunching, JobPhase::kRunning};
    case JobTimer::kServices:
      return {JobPhase::kConnecting, JobPhase::kRunning};  // ranks of a resumed job may end before it is launched
    case JobTimer::kStop:
      return {JobPhase::kStopping, JobPhase::kKilling};
    case JobTimer::kOutput:
    case JobTimer::kRootCause:
    case JobTimer::kPeers:
    case JobTimer::kProgress:
    case JobTimer::kTick:
    case JobTimer::kSuspend:
    case JobTimer::kCount:
      break;
  }
  return {JobPhase::kConnecting, JobPhase::kKilling};
}

}  // namespace

bool belongs_to(JobTimer timer, JobPhase phase) {
  const PhaseRange range = phases_of(timer);
  return range.first <= phase && phase <= range.last;
}

void PhaseTimers::on_enter(JobTimer timer, std::function<void()> start) {
  at(timer).start = std::move(start);
}

void PhaseTimers::enter(JobPhase phase) {
  const JobPhase before = std::exchange(phase_, phase);
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const auto timer = static_cast<JobTimer>(i);
    if (!belongs_to(timer, phase)) {
      cancel(timer);
    } else if (entries_[i].start && !belongs_to(timer, before)) {
      entries_[i].start();
    }
  }
}

void PhaseTimers::start(JobTimer timer, base::Duration delay, base::Loop::Task task) {
  if (may_start(timer)) at(timer).timer = loop_.after(delay, std::move(task));
}

void PhaseTimers::repeat(JobTimer timer, base::Duration period, base::Loop::Task task) {
  if (may_start(timer)) at(timer).timer = loop_.every(period, std::move(task));
}

}  // namespace muster::launcherd::run
