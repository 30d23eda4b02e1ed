#include "launcherd/run/stop_plan.h"

#include "model/exit_code.h"

namespace muster::launcherd::inline run {

std::optional<std::chrono::milliseconds> StopPlan::keep_early(StopCause cause) {
  if (is_early_at_once_) return std::nullopt;
  is_early_at_once_ = is_early();
  if (!is_early()) early_ = cause;
  return early_grace() + kStopMargin;
}

void StopPlan::begin(StopCause cause, bool ends_start) {
  cause_ = ends_start && is_early() ? early_ : cause;
}

void StopPlan::blame_host(bool has_root) {
  if (cause_ == StopCause::kPolicy && !has_root) cause_ = StopCause::kHostFailed;
}

std::chrono::milliseconds StopPlan::set_limit(std::chrono::milliseconds grace, bool waits_for_gpus) {
  return limit_ = grace + kStopMargin + (waits_for_gpus ? kGpuMargin : std::chrono::milliseconds(0));
}

bool StopPlan::is_from_outside() const {
  return cause_ == StopCause::kHangup || cause_ == StopCause::kInterrupt || cause_ == StopCause::kTerminate ||
         cause_ == StopCause::kStdoutClosed;
}

int StopPlan::exit_code(const std::optional<model::RankEnd>& root) const {
  switch (cause_) {
    case StopCause::kHangup:
      return model::kHungUp;
    case StopCause::kInterrupt:
      return model::kInterrupted;
    case StopCause::kTerminate:
    case StopCause::kResize:
      return model::kTerminated;
    case StopCause::kTimeout:
      return model::kTimedOut;
    case StopCause::kStdoutClosed:
      return model::kStdoutClosed;
    case StopCause::kHostFailed:
    case StopCause::kOutputFailed:
      return model::kMusterFailed;
    case StopCause::kRefused:
      return model::kUsageError;
    case StopCause::kHung:
      return root ? root->status() : model::kTimedOut;
    case StopCause::kNone:
    case StopCause::kPolicy:
      break;
  }
  return root ? root->status() : 0;
}

}  // namespace muster::launcherd::run
