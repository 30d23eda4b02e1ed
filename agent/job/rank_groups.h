// Sends the starts of several ranks, and the ends of several ranks, as one message each (RanksStarted, RanksExited). It
// stands between a session and its launcher, because a job may have many hosts and ranks.
//
// It holds a start, or an end with exit code 0, for at most kGatherTime. Any other message goes out at once, after what
// is held. So the order of the messages about one rank stays the same.
//
// Owner: the job's session.
// Thread: the loop thread only.
//
//   groups.send(rank_started);  // held
//   groups.send(launched);      // sends both
#pragma once

#include <chrono>
#include <functional>
#include <vector>

#include "base/loop.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::agent::inline job {

class RankGroups {
 public:
  using Send = std::function<void(v1::AgentMessage)>;
  // Ranks of one host start and end within some milliseconds of each other.
  static constexpr std::chrono::milliseconds kGatherTime{5};

  RankGroups(base::Loop& loop, Send send) : loop_(loop), send_(std::move(send)) {}
  RankGroups(const RankGroups&) = delete;
  RankGroups& operator=(const RankGroups&) = delete;

  void send(v1::AgentMessage message);

 private:
  void hold(v1::AgentMessage message, std::vector<v1::AgentMessage>& held);
  void flush();

  base::Loop& loop_;
  const Send send_;
  std::vector<v1::AgentMessage> started_;  // goes out before exited_
  std::vector<v1::AgentMessage> exited_;
  base::Timer timer_;
};

}  // namespace muster::agent::job
