#include "launcherd/daemon/array_state.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/status.h"
#include "model/exit_code.h"

namespace muster::launcherd::inline daemon {

NewJob ArrayState::new_element(const base::JobId& array, int index, const base::JobId& id, base::WallTime now) const {
  NewJob element = element_;
  element.id = id;
  element.submitted = now;
  element.element = ArrayPlace{array, index};
  return element;
}

void ArrayState::start(int index, const base::JobId& id) {
  MUSTER_CHECK(waiting_.remove(index));
  running_.emplace(index, id);
}

void ArrayState::end(int index, model::JobState final_state, std::optional<int> exit_code) {
  if (running_.erase(index) == 0 && !waiting_.remove(index)) return;
  if (final_state == model::JobState::kSucceeded) {
    ++succeeded_;
  } else if (final_state == model::JobState::kKilled) {
    ++killed_;
  } else {
    failed_.add(index);
    if (!first_failed_ || index < first_failed_->first) {
      first_failed_ = {index, exit_code.value_or(model::kMusterFailed)};
    }
  }
}

void ArrayState::stop(int exit_code, std::string reason) {
  if (!stop_) stop_ = {exit_code, std::move(reason)};
}

std::int64_t ArrayState::may_start() const {
  if (is_stopping()) return 0;
  if (most_at_once_ == 0) return waiting_.size();
  const auto room = std::int64_t{most_at_once_} - static_cast<std::int64_t>(running_.size());
  return std::clamp(room, std::int64_t{0}, waiting_.size());
}

ArrayEnd ArrayState::outcome() const {
  if (stop_) return {model::JobState::kKilled, stop_->first, stop_->second};
  if (first_failed_) {
    return {model::JobState::kFailed, first_failed_->second,
            fmt::format("{} of its {} elements failed: {}", failed_.size(), failed_.size() + succeeded_ + killed_,
                        model::short_index_list(failed_))};
  }
  if (killed_ > 0) {
    return {model::JobState::kKilled, model::kTerminated,
            fmt::format("{} of its {} elements were killed", killed_, killed_ + succeeded_)};
  }
  return {model::JobState::kSucceeded, model::kSuccess, fmt::format("all {} elements succeeded", succeeded_)};
}

}  // namespace muster::launcherd::daemon
