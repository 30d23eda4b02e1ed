// The Store that a job's ranks meet in, in memory of the agent on rank 0's host.
#pragma once

#include <map>
#include <set>
#include <string>
#include <unordered_map>

#include "rendezvous/store.h"

namespace muster::rendezvous {

class MemoryStore final : public Store {
 public:
  explicit MemoryStore(StoreLimits limits = {}) : limits_(limits) {}

  base::Status set(std::string_view key, std::string_view value) override;
  std::optional<std::string> get(std::string_view key) const override;
  base::Result<std::int64_t> add(std::string_view key, std::int64_t delta) override;
  base::Result<std::string> compare_set(std::string_view key, std::string_view expected,
                                        std::string_view desired) override;
  bool erase(std::string_view key) override;
  std::size_t size() const override { return values_.size(); }
  WaitId wait(std::vector<std::string> keys, std::function<void()> ready) override;
  bool cancel_wait(WaitId id) override;

 private:
  struct Waiter {
    std::set<std::string> missing;
    std::function<void()> ready;
  };

  base::Status check_limits(std::string_view key, std::string_view value) const;
  void wake(const std::string& key);

  const StoreLimits limits_;
  std::unordered_map<std::string, std::string> values_;
  std::size_t total_bytes_ = 0;
  std::map<WaitId, Waiter> waiters_;
  std::unordered_map<std::string, std::set<WaitId>> waiting_for_;  // key -> who waits
  WaitId next_wait_ = 1;
};

}  // namespace muster::rendezvous
