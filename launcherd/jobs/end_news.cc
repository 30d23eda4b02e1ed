#include "launcherd/jobs/end_news.h"

#include <utility>

#include "base/strings.h"

namespace muster::launcherd {

void EndNews::follow(int agent, const std::vector<int>& own_ranks, const std::vector<model::RankEnd>& so_far) {
  flush();  // or the newest would be told twice
  const auto added = followers_.emplace(agent, std::set<int>(own_ranks.begin(), own_ranks.end()));
  if (added.second) tell(agent, added.first->second, so_far);
}

bool EndNews::add(const model::RankEnd& end) {
  if (!followers_.empty()) waiting_.push_back(end);
  return !waiting_.empty();
}

void EndNews::flush() {
  const auto ends = std::exchange(waiting_, {});
  if (ends.empty()) return;
  for (const auto& [agent, own_ranks] : followers_) tell(agent, own_ranks, ends);
}

void EndNews::tell(int agent, const std::set<int>& own_ranks, const std::vector<model::RankEnd>& ends) {
  v1::LauncherMessage message;
  v1::RanksEnded& news = *message.mutable_ranks_ended();
  for (const model::RankEnd& end : ends) {
    if (own_ranks.contains(end.rank)) continue;
    v1::EndedRank& entry = *news.add_ranks();
    entry.set_rank(end.rank);
    entry.set_failed(end.status() != 0);
    entry.set_cause(base::valid_utf8(model::describe_to_peers(end)));
  }
  if (!news.ranks().empty()) send_(agent, std::move(message));
}

}  // namespace muster::launcherd
