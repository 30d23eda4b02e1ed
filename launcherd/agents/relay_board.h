// Decides which agents of a launcher are relays, and through which relay each other agent reaches the launcher.
//
// With at most `fanout` agents there is no relay: each agent connects to the launcher itself. With more, about the
// square root of their number are relays, at most `fanout`, spread evenly over the list of hosts. Each other agent gets
// the nearest relay before it. If that one has not come up when no relay has for the patience, the agent gets another
// relay that is up, or the direct way if none is.
//
// Owner: OwnAgents or the pool.
// Thread: loop thread only. Callbacks run on the loop, also within calls. They must not destroy the board.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/clock.h"
#include "base/loop.h"
#include "launcherd/agents/relays_among.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::launcherd::inline agents {

class RelayBoard {
 public:
  // nullopt: the agent connects to the launcher itself.
  using OnParent = std::function<void(std::optional<v1::Relay>)>;

  // A relay that has to be sent the agent program first may need as long as the others.
  RelayBoard(base::Loop& loop, int fanout, base::Duration patience)
      : loop_(loop), fanout_(fanout), patience_(patience) {}

  // These agents start now, in this order. Returns those of them that become relays.
  std::set<int> begin(const std::vector<int>& agents);
  // Calls `on_parent` once, when the parent of this agent is known. begin() must have named the agent.
  void place(int agent, OnParent on_parent);
  // An agent that an earlier launcher has started is up.
  void joined(int agent) { agents_.insert(agent); }
  // Returns the relay that place() has chosen for this agent; -1 if it connects to the launcher itself.
  int parent_of(int agent) const;
  // The relay serves at this address.
  void relay_up(int agent, v1::Relay relay);
  // The agent has ended, or does not come up. Its children find another way by themselves.
  void lost(int agent);

 private:
  struct RelayEntry {
    std::optional<v1::Relay> relay;  // set while it is up
    int children = 0;
  };
  struct Child {
    int parent = -1;
    OnParent on_parent;
  };

  void decide(int agent, bool may_wait);
  void decide_all();
  void wait_again();
  int least_loaded() const;  // of the relays that are up; -1 if none is

  base::Loop& loop_;
  const int fanout_;
  const base::Duration patience_;
  std::set<int> agents_;              // that run or start
  std::map<int, RelayEntry> relays_;  // that are up or start
  std::map<int, int> parents_;        // the intended parent of each other agent, then the chosen one
  std::map<int, Child> waiting_;
  base::Timer impatience_;
};

// How agents reach this relay, by what it has reported of its host.
v1::Relay relay_of(const v1::Hello& hello);

}  // namespace muster::launcherd::agents
