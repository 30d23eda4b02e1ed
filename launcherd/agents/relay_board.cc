#include "launcherd/agents/relay_board.h"

#include <algorithm>
#include <utility>

namespace muster::launcherd::inline agents {
namespace {

constexpr int kMostAddresses = 8;

void add_address(const std::string& address, v1::Relay& relay) {
  const auto& known = relay.addresses();
  if (address.empty() || relay.addresses_size() >= kMostAddresses) return;
  if (std::find(known.begin(), known.end(), address) == known.end()) relay.add_addresses(address);
}

}  // namespace

v1::Relay relay_of(const v1::Hello& hello) {
  v1::Relay relay;
  relay.set_port(hello.relay_port());
  add_address(hello.ssh_server_address(), relay);
  for (const v1::NetworkInterface& entry : hello.interfaces()) {
    const bool is_local = entry.address().starts_with("127.") || entry.address() == "::1";
    if (!is_local) add_address(entry.address(), relay);
  }
  return relay;
}

std::set<int> RelayBoard::begin(const std::vector<int>& agents) {
  agents_.insert(agents.begin(), agents.end());
  const int wanted = relays_among(static_cast<int>(agents_.size()), fanout_);
  const std::size_t missing = std::clamp<std::size_t>(
      static_cast<std::size_t>(std::max(wanted - static_cast<int>(relays_.size()), 0)), 0, agents.size());
  std::set<int> chosen;  // one at the beginning of each of `missing` equal parts of the list
  for (std::size_t i = 0; i < missing; ++i) chosen.insert(agents[i * agents.size() / missing]);
  int nearest = relays_.empty() ? -1 : relays_.rbegin()->first;
  for (const int agent : agents) {
    if (chosen.contains(agent)) {
      nearest = agent;
      relays_[agent];
    } else if (wanted > 0) {
      parents_[agent] = nearest;
    }
  }
  return chosen;
}

void RelayBoard::place(int agent, OnParent on_parent) {
  const auto parent = parents_.find(agent);
  if (parent == parents_.end()) return on_parent(std::nullopt);
  waiting_[agent] = {parent->second, std::move(on_parent)};
  if (!impatience_.armed()) wait_again();
  decide(agent, true);
}

void RelayBoard::wait_again() {
  impatience_ = loop_.after(patience_, [this] {
    impatience_.cancel();
    for (const auto& [agent, child] : std::map(waiting_)) decide(agent, false);
  });
}

// Gives the agent its parent, if that is decided.
void RelayBoard::decide(int agent, bool may_wait) {
  const auto found = waiting_.find(agent);
  if (found == waiting_.end()) return;
  const auto intended = relays_.find(found->second.parent);
  int parent = intended != relays_.end() && intended->second.relay ? intended->first : -1;
  const bool is_pending = intended != relays_.end() && parent < 0;
  if (parent < 0 && is_pending && may_wait) return;
  if (parent < 0) parent = least_loaded();
  const bool may_another_come =
      std::any_of(relays_.begin(), relays_.end(), [](const auto& entry) { return !entry.second.relay; });
  if (parent < 0 && may_another_come && may_wait) return;
  const OnParent on_parent = std::move(found->second.on_parent);
  waiting_.erase(found);
  parents_[agent] = parent;
  if (parent < 0) return on_parent(std::nullopt);
  ++relays_[parent].children;
  on_parent(relays_[parent].relay);
}

int RelayBoard::parent_of(int agent) const {
  const auto parent = parents_.find(agent);
  return parent == parents_.end() ? -1 : parent->second;
}

void RelayBoard::decide_all() {
  for (const auto& [agent, child] : std::map(waiting_)) decide(agent, true);
}

int RelayBoard::least_loaded() const {
  int best = -1;
  for (const auto& [agent, entry] : relays_) {
    if (entry.relay && (best < 0 || entry.children < relays_.at(best).children)) best = agent;
  }
  return best;
}

void RelayBoard::relay_up(int agent, v1::Relay relay) {
  agents_.insert(agent);
  relays_[agent].relay = std::move(relay);
  if (!waiting_.empty()) wait_again();
  decide_all();
}

void RelayBoard::lost(int agent) {
  agents_.erase(agent);
  parents_.erase(agent);
  if (relays_.erase(agent) > 0) decide_all();
}

}  // namespace muster::launcherd::agents
