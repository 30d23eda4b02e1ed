// Decides which agents are pinged at a tick. Up to 1,000 agents are all pinged at each tick. A larger number of agents
// takes turns. Every ping and its answer cost a launcher the same time, even if the agents have little to send.
//
// Owner: JobRunner's core and the pool, one each. A plain value without threads.
//
//   turns.next(hosts.size());  // at each tick
//   if (turns.is_due(i)) ping(hosts[i]);
#pragma once

#include <algorithm>
#include <cstddef>

namespace muster::launcherd::inline agents {

class PingTurns {
 public:
  static constexpr std::size_t kMostAtOnce = 1'000;

  void next(std::size_t agents) {
    count_ = static_cast<int>(std::max<std::size_t>((agents + kMostAtOnce - 1) / kMostAtOnce, 1));
    turn_ = (turn_ + 1) % count_;
  }
  // Returns the number of ticks from one ping of an agent to its next.
  int count() const { return count_; }
  bool is_due(std::size_t agent) const { return static_cast<int>(agent % static_cast<std::size_t>(count_)) == turn_; }

 private:
  int count_ = 1;
  int turn_ = 0;
};

}  // namespace muster::launcherd::agents
