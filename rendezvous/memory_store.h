// The Store in which a job's ranks meet, in the memory of the agent on rank 0's host.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "rendezvous/store.h"

namespace muster::rendezvous {

class MemoryStore final : public Store {
 public:
  explicit MemoryStore(StoreLimits limits = {}) : limits_(limits) {}

  base::Status set(std::string_view key, std::string_view value) override;
  base::Status append(std::string_view key, std::string_view tail) override;
  base::Result<std::int64_t> add(std::string_view key, std::int64_t delta) override;
  base::Result<std::string> compare_set(std::string_view key, std::string_view expected,
                                        std::string_view desired) override;
  bool erase(std::string_view key) override;
  const std::string* find(std::string_view key) const override;
  std::size_t size() const override { return values_.size(); }
  void for_each_key(const std::function<void(std::string_view key)>& visit) const override;
  base::Status queue_push(std::string_view name, std::string_view value) override;
  std::optional<std::string> queue_pop(std::string_view name) override;
  std::size_t queue_size(std::string_view name) const override;
  WaitId wait(std::vector<std::string> keys, std::function<void()> ready) override;
  bool cancel_wait(WaitId id) override;
  std::vector<std::string> missing_keys(WaitId id) const override;

 private:
  // Allows lookups by string_view, so that a request need not copy its key.
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  template <typename T>
  using ByKey = std::unordered_map<std::string, T, Hash, std::equal_to<>>;
  using Values = ByKey<std::string>;

  struct Waiter {
    std::vector<std::string> keys;  // keys that were missing at the start
    std::size_t missing = 0;        // how many of them are still missing
    std::function<void()> ready;
  };
  enum class Wake { kAll, kOne };

  base::Status check_limits(std::string_view key, std::size_t value_size, std::size_t most,
                            Values::const_iterator current) const;
  base::Status put(Values::iterator current, std::string_view key, std::string_view value);
  bool exists(std::string_view key) const;
  void wake(std::string_view key, Wake how_many);

  const StoreLimits limits_;
  Values values_;
  ByKey<std::deque<std::string>> queues_;  // no queue is empty
  std::size_t queued_ = 0;                 // entries of all queues
  std::size_t total_bytes_ = 0;            // bytes of keys, values, and queues with their names
  std::unordered_map<WaitId, Waiter> waiters_;
  ByKey<std::vector<WaitId>> waiting_for_;  // for each key its waits, in the order in which they began
  WaitId next_wait_ = 1;
};

}  // namespace muster::rendezvous
