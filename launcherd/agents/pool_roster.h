// The hosts of a pool, by login and by the number of their agents at the control server. Private to this folder.
//
// Owner: PoolParts (pool_parts.h).
// Thread: loop thread only. Hosts are never removed, so references stay valid as long as the roster.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "base/status.h"
#include "launcherd/agents/pool_host.h"

namespace muster::launcherd::inline agents {

class PoolRoster {
 public:
  // Adds the host if it is unknown.
  PoolHost& at(const BootstrapTarget& target) {
    std::unique_ptr<PoolHost>& host = hosts_[key_of(target)];
    if (host == nullptr) {
      host = std::make_unique<PoolHost>();
      host->target = target;
    }
    return *host;
  }

  // find() and numbered() return nullptr if the host is unknown.
  const PoolHost* find(const BootstrapTarget& target) const {
    const auto found = hosts_.find(key_of(target));
    return found == hosts_.end() ? nullptr : found->second.get();
  }
  PoolHost* numbered(int number) const {
    const auto found = by_number_.find(number);
    // A corrupt state file may list a host twice. Only the last one counts.
    if (found == by_number_.end() || found->second->number != number) return nullptr;
    return found->second;
  }

  // Records the host's agent, which has `number` at the control server.
  void add_agent(PoolHost& host, std::string token, int number, int hello_number) {
    host.token = std::move(token);
    host.number = number;
    host.hello_number = hello_number;
    MUSTER_CHECK(by_number_.emplace(number, &host).second);
  }
  // Returns the agent's former number.
  int remove_agent(PoolHost& host) {
    by_number_.erase(host.number);
    return std::exchange(host.number, -1);
  }

  std::size_t size() const { return hosts_.size(); }
  auto begin() const { return hosts_.begin(); }
  auto end() const { return hosts_.end(); }

 private:
  static std::string key_of(const BootstrapTarget& target) {
    return fmt::format("{}@{}:{}", target.user, target.name, target.port);
  }

  std::map<std::string, std::unique_ptr<PoolHost>> hosts_;
  std::unordered_map<int, PoolHost*> by_number_;
};

}  // namespace muster::launcherd::agents
