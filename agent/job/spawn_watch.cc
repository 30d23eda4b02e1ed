#include "agent/job/spawn_watch.h"

#include <fmt/format.h>

#include "base/strings.h"

namespace muster::agent::inline job {

void SpawnWatch::expect(const std::vector<SpawnRequest>& requests) {
  for (const SpawnRequest& request : requests) {
    open_[request.rank] = fmt::format("'{}' in {}", request.argv.empty() ? "" : request.argv.front(),
                                      request.workdir.empty() ? "/" : request.workdir);
  }
  watch();
}

bool SpawnWatch::tried(int rank) {
  open_.erase(rank);
  timer_.cancel();
  if (!open_.empty()) watch();
  return open_.empty();
}

void SpawnWatch::watch() {
  timer_ = loop_.after(limit_, [this] { warn_of_first(); });
}

void SpawnWatch::warn_of_first() const {
  if (open_.empty()) return;
  const auto& [rank, what] = *open_.begin();
  warn_(
      fmt::format("rank {} has not started for {} s ({}); check that the file system of its program and folder answers",
                  rank, std::chrono::duration_cast<std::chrono::seconds>(limit_).count(), base::printable(what)));
}

}  // namespace muster::agent::job
