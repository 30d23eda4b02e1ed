#include "launcherd/daemon/ended_environments.h"

#include <algorithm>
#include <utility>

namespace muster::launcherd::inline daemon {

void EndedEnvironments::add(const base::JobId& id, std::string environment, base::WallTime now,
                            base::WallTime forget_at) {
  std::erase_if(kept_, [&](const Kept& kept) {
    const bool is_over = kept.forget_at <= now || kept.id == id;
    if (is_over) bytes_ -= kept.environment.size();
    return is_over;
  });
  if (forget_at <= now || environment.size() > kMostBytes) return;
  bytes_ += environment.size();
  kept_.push_back({.id = id, .environment = std::move(environment), .forget_at = forget_at});
  while (kept_.size() > kMostJobs || bytes_ > kMostBytes) drop_oldest();
}

void EndedEnvironments::drop_oldest() {
  bytes_ -= kept_.front().environment.size();
  kept_.pop_front();
}

const std::string* EndedEnvironments::find(const base::JobId& id) const {
  const auto found = std::ranges::find(kept_, id, &Kept::id);
  return found == kept_.end() ? nullptr : &found->environment;
}

}  // namespace muster::launcherd::daemon
