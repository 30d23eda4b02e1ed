#include "launcherd/run/peer_failures.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/strings.h"

namespace muster::launcherd::inline run {

void PeerFailures::follow(int agent, const std::vector<int>& own_ranks, const std::vector<model::RankEnd>& so_far,
                          bool wants_silence) {
  flush();  // first, because the newest ends are in `so_far` too and would be sent twice
  const auto [at, is_new] = followers_.emplace(agent, Follower{{own_ranks.begin(), own_ranks.end()}, wants_silence});
  if (!is_new) return;
  send_ends(agent, at->second, so_far);
  send_silence(agent, at->second);
}

void PeerFailures::stream_began(int agent) {
  const auto found = followers_.find(agent);
  if (found == followers_.end()) return;
  found->second.silent.clear();
  send_silence(agent, found->second);
}

void PeerFailures::begin_generation(const std::map<int, std::vector<int>>& own_ranks) {
  waiting_.clear();
  silent_.clear();
  for (auto& [agent, follower] : followers_) {
    const auto found = own_ranks.find(agent);
    follower.own_ranks =
        found == own_ranks.end() ? std::set<int>() : std::set<int>(found->second.begin(), found->second.end());
    follower.silent.clear();  // the agent forgets them, too
  }
}

bool PeerFailures::add(const model::RankEnd& end) {
  if (!followers_.empty()) waiting_.push_back(end);
  return !waiting_.empty();
}

void PeerFailures::flush() {
  const auto ends = std::exchange(waiting_, {});
  for (auto& [agent, follower] : followers_) {
    send_ends(agent, follower, ends);
    send_silence(agent, follower);
  }
}

void PeerFailures::send_silence(int agent, Follower& follower) {
  if (!follower.wants_silence) return;
  std::set<int> silent;
  std::ranges::set_difference(silent_, follower.own_ranks, std::inserter(silent, silent.end()));
  if (silent == follower.silent) return;
  v1::LauncherMessage message;
  message.mutable_silent_ranks()->mutable_ranks()->Assign(silent.begin(), silent.end());
  follower.silent = std::move(silent);
  send_(agent, std::move(message));
}

void PeerFailures::send_ends(int agent, const Follower& follower, const std::vector<model::RankEnd>& ends) {
  v1::LauncherMessage message;
  v1::RanksEnded& ended = *message.mutable_ranks_ended();
  for (const model::RankEnd& end : ends) {
    if (follower.own_ranks.contains(end.rank)) continue;
    v1::EndedRank& entry = *ended.add_ranks();
    entry.set_rank(end.rank);
    entry.set_failed(end.status() != 0);
    entry.set_cause(base::valid_utf8(model::describe_to_peers(end)));
  }
  if (!ended.ranks().empty()) send_(agent, std::move(message));
}

}  // namespace muster::launcherd::run
