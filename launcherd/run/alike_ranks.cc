#include "launcherd/run/alike_ranks.h"

#include <algorithm>
#include <string_view>

#include "model/traceback.h"

namespace muster::launcherd::inline run {
namespace {

// A rank that failed during the stop may have failed alike, a moment later. One that a signal of the stop has ended
// has not.
bool failed_by_itself(const model::RankEnd& end) {
  const bool exited_during_stop = end.kind == model::EndKind::kStopped && end.signal == 0 && end.exit_code != 0;
  return exited_during_stop ||
         (end.failed() && (end.kind == model::EndKind::kExited || end.kind == model::EndKind::kSignalled));
}

std::string_view exception_of(int rank, const std::map<int, std::string>& tails) {
  const auto tail = tails.find(rank);
  return tail == tails.end() ? std::string_view() : model::exception_line(tail->second);
}

}  // namespace

std::vector<int> alike_ranks(const std::vector<model::RankEnd>& ends, int root,
                             const std::map<int, std::string>& tails) {
  std::vector<int> alike;
  if (root < 0) return alike;
  const model::RankEnd& first = ends[static_cast<std::size_t>(root)];
  const std::string_view exception = exception_of(first.rank, tails);
  if (exception.empty() || !failed_by_itself(first)) return alike;
  for (const model::RankEnd& end : ends) {
    if (end.rank == first.rank || !failed_by_itself(end)) continue;
    const std::string_view other = exception_of(end.rank, tails);
    if (!other.empty() && model::is_same_exception(exception, other)) alike.push_back(end.rank);
  }
  std::ranges::sort(alike);
  return alike;
}

}  // namespace muster::launcherd::run
