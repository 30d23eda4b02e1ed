// Decides which agents are pinged at a tick. Up to 1,000 agents are all pinged at each tick. A larger number of agents
// takes turns: at most 1,000 at a tick, or only 160 if each is still pinged 20 times in its lease. Every ping and its
// answer cost a launcher the same time, even if the agents have little to send.
//
// Owner: JobRunner's core and the pool, one each. A plain value without threads.
//
//   turns.next(hosts.size(), lease / kPeriod);  // at each tick
//   if (turns.is_due(i)) ping(hosts[i]);
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace muster::launcherd::inline agents {

class PingTurns {
 public:
  static constexpr std::size_t kMostAtOnce = 1'000;
  static constexpr std::size_t kFewAtOnce = 160;
  static constexpr std::int64_t kPingsOfALease = 20;

  // `lease_ticks` is the number of ticks in the agents' lease; 0 asks for as many pings as possible.
  void next(std::size_t agents, std::int64_t lease_ticks) {
    count_ = turns_of(agents, kMostAtOnce);
    if (count_ > 1) count_ = std::max(count_, std::min(turns_of(agents, kFewAtOnce), most_turns(lease_ticks)));
    turn_ = (turn_ + 1) % count_;
  }
  // Returns the number of ticks from one ping of an agent to its next.
  int count() const { return count_; }
  bool is_due(std::size_t agent) const { return static_cast<int>(agent % static_cast<std::size_t>(count_)) == turn_; }

 private:
  static int turns_of(std::size_t agents, std::size_t at_once) {
    return static_cast<int>(std::max<std::size_t>((agents + at_once - 1) / at_once, 1));
  }
  static int most_turns(std::int64_t lease_ticks) {
    return static_cast<int>(std::min<std::int64_t>(lease_ticks / kPingsOfALease, std::numeric_limits<int>::max()));
  }

  int count_ = 1;
  int turn_ = 0;
};

}  // namespace muster::launcherd::agents
