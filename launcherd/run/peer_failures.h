// Reports how ranks of other hosts have ended, to each agent that asked for such reports (agent.proto, FollowEnds).
// Peers that wait for a rank that has ended then fail at once.
//
// It also reports which ranks are silent, so that all peers name the same host at their deadline.
// Reports that are due at the same time share one message.
//
// Owner: JobRunner's core.
// Thread: loop thread only.
// Cost: none for a job that no agent follows.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "model/exit_report.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::launcherd::inline run {

class PeerFailures {
 public:
  using Send = std::function<void(int agent, v1::LauncherMessage message)>;

  explicit PeerFailures(Send send) : send_(std::move(send)) {}

  // Starts to report to `agent`, beginning with all ends `so_far`. `own_ranks` are the ranks of that agent's host. The
  // agent knows their ends by itself. With `wants_silence` the agent also gets set_silent()'s ranks.
  void follow(int agent, const std::vector<int>& own_ranks, const std::vector<model::RankEnd>& so_far,
              bool wants_silence);
  void unfollow(int agent) { followers_.erase(agent); }
  bool has_followers() const { return !followers_.empty(); }
  // Begins a generation of a job whose ranks change. `own_ranks` has the ranks of each agent's host. Ends of the
  // generation before are no longer reported.
  void begin_generation(const std::map<int, std::vector<int>>& own_ranks);
  // Call this when a new stream to the agent has begun. The agent has forgotten which ranks are silent, so they are
  // sent again.
  void stream_began(int agent);

  // Adds an end; call it once for each rank. Returns true if flush() has something to send.
  bool add(const model::RankEnd& end);
  // Sets all ranks whose host does not answer. The next flush() sends them to each follower that has another set.
  void set_silent(std::set<int> ranks) { silent_ = std::move(ranks); }
  void flush();

 private:
  struct Follower {
    std::set<int> own_ranks;
    bool wants_silence = false;
    std::set<int> silent{};  // the set that was last sent to the agent
  };

  void send_ends(int agent, const Follower& follower, const std::vector<model::RankEnd>& ends);
  void send_silence(int agent, Follower& follower);

  const Send send_;
  std::map<int, Follower> followers_;  // by agent
  std::set<int> silent_;
  std::vector<model::RankEnd> waiting_;
};

}  // namespace muster::launcherd::run
