// How ranks find each other: a small key-value store with waiting and queues. Keys and values are bytes; limits keep
// one client from eating the host's memory.
//
// Asynchronous on the loop of its owner: a wait never blocks a thread. All calls and callbacks on that thread.
// A fresh Store belongs to each generation (attempt) of a job, so that nothing of a failed one is ever seen.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace muster::rendezvous {

struct StoreLimits {
  std::size_t max_key_bytes = 8 << 10;
  std::size_t max_value_bytes = 8 << 20;  // of one write
  // What appends may make of a value: as much as a TCPStore's reply can carry. torch's own store has no bound.
  std::size_t max_appended_bytes = std::size_t{256} << 20;
  std::size_t max_keys = 1 << 20;  // entries of queues count like keys
  std::size_t max_total_bytes = std::size_t{1} << 30;
};

class Store {
 public:
  using WaitId = std::uint64_t;

  virtual ~Store() = default;

  // Overwrites. INVALID_ARGUMENT or RESOURCE_EXHAUSTED: a limit; the store is unchanged.
  virtual base::Status set(std::string_view key, std::string_view value) = 0;
  // Adds `tail` to the end of the value (missing: empty). Limits as for set, but for max_appended_bytes.
  virtual base::Status append(std::string_view key, std::string_view tail) = 0;
  // Adds to the decimal number at `key` (missing: 0) and returns the sum. INVALID_ARGUMENT: the value is no number.
  virtual base::Result<std::int64_t> add(std::string_view key, std::int64_t delta) = 0;
  // Sets `desired` if the value equals `expected`, or if the key is missing and `expected` is empty. Returns what is
  // there afterwards; for a missing key with a non-empty `expected` that is `expected`, as torch's store answers.
  virtual base::Result<std::string> compare_set(std::string_view key, std::string_view expected,
                                                std::string_view desired) = 0;
  virtual bool erase(std::string_view key) = 0;

  // The value, valid until the store changes; nullptr: no such key.
  virtual const std::string* find(std::string_view key) const = 0;
  std::optional<std::string> get(std::string_view key) const {
    const std::string* value = find(key);
    return value == nullptr ? std::nullopt : std::optional(*value);
  }
  virtual std::size_t size() const = 0;  // keys; queues do not count
  // In no order; `visit` must not change the store.
  virtual void for_each_key(const std::function<void(std::string_view key)>& visit) const = 0;

  // Queues have names of their own beside the keys: first in, first out. Limits as for set.
  // A push ends at most one wait for that name.
  virtual base::Status queue_push(std::string_view name, std::string_view value) = 0;
  virtual std::optional<std::string> queue_pop(std::string_view name) = 0;
  virtual std::size_t queue_size(std::string_view name) const = 0;

  // `ready` is called once, when all keys exist (a queue that holds something counts): at once, from within wait(), if
  // they do already (then 0 is returned). Who waits longest is served first.
  virtual WaitId wait(std::vector<std::string> keys, std::function<void()> ready) = 0;
  // True if it was still waiting; `ready` is not called any more.
  virtual bool cancel_wait(WaitId id) = 0;
};

}  // namespace muster::rendezvous
