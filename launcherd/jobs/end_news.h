// Tells the agents that want it how ranks of other hosts have ended (agent.proto, FollowEnds), so that peers which wait
// for them fail at once. Ends that come together travel together.
//
// Loop thread only; a job that no agent follows costs nothing.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <vector>

#include "model/exit_report.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::launcherd {

class EndNews {
 public:
  using Send = std::function<void(int agent, v1::LauncherMessage message)>;

  explicit EndNews(Send send) : send_(std::move(send)) {}

  // From now on, and all of `so_far`, at once. `own_ranks`: of that agent's host; it knows of them before we do.
  void follow(int agent, const std::vector<int>& own_ranks, const std::vector<model::RankEnd>& so_far);
  void unfollow(int agent) { followers_.erase(agent); }

  // Each end once. True: flush() has something to send.
  bool add(const model::RankEnd& end);
  void flush();

 private:
  void tell(int agent, const std::set<int>& own_ranks, const std::vector<model::RankEnd>& ends);

  const Send send_;
  std::map<int, std::set<int>> followers_;  // and the ranks of their hosts
  std::vector<model::RankEnd> waiting_;
};

}  // namespace muster::launcherd
