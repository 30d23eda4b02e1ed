// Tells the agents that want it how ranks of other hosts have ended (agent.proto, FollowEnds), so that peers which wait
// for them fail at once, and of which ranks the launcher does not hear, so that all peers name the same host at their
// deadline. What comes together travels together.
//
// Loop thread only; a job that no agent follows costs nothing.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "model/exit_report.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::launcherd::inline run {

class EndNews {
 public:
  using Send = std::function<void(int agent, v1::LauncherMessage message)>;

  explicit EndNews(Send send) : send_(std::move(send)) {}

  // From now on, and all of `so_far`, at once. `own_ranks`: of that agent's host; it knows of them before we do.
  // `wants_silence`: of set_silent() as well.
  void follow(int agent, const std::vector<int>& own_ranks, const std::vector<model::RankEnd>& so_far,
              bool wants_silence);
  void unfollow(int agent) { followers_.erase(agent); }
  // A new stream to the agent has begun, which has forgotten who is silent.
  void stream_began(int agent);

  // Each end once. True: flush() has something to send.
  bool add(const model::RankEnd& end);
  // All ranks whose host does not answer. With the next flush(), if it is another set than a follower has heard.
  void set_silent(std::set<int> ranks) { silent_ = std::move(ranks); }
  void flush();

 private:
  struct Follower {
    std::set<int> own_ranks;
    bool wants_silence = false;
    std::set<int> silent{};  // as it was told
  };

  void tell(int agent, const Follower& follower, const std::vector<model::RankEnd>& ends);
  void tell_silence(int agent, Follower& follower);

  const Send send_;
  std::map<int, Follower> followers_;  // by agent
  std::set<int> silent_;
  std::vector<model::RankEnd> waiting_;
};

}  // namespace muster::launcherd::run
