// The interface of a small key-value store with waits and queues, by which ranks find each other. Keys and values are
// bytes. Limits keep a client from filling the host's memory.
//
// Each generation (attempt) of a job gets a fresh Store, so that it never sees values of a failed one.
// Thread: that of the owner's loop, for all calls and callbacks. A wait never blocks a thread.
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
  std::size_t max_value_bytes = 8 << 20;  // limit for one write
  // Limit on a value after appends, as much as a TCPStore's reply can carry. torch's own store has no limit.
  std::size_t max_appended_bytes = std::size_t{256} << 20;
  std::size_t max_keys = 1 << 20;  // queue entries count as keys
  std::size_t max_total_bytes = std::size_t{1} << 30;
};

class Store {
 public:
  using WaitId = std::uint64_t;

  virtual ~Store() = default;

  // Overwrites. INVALID_ARGUMENT or RESOURCE_EXHAUSTED if a limit is exceeded; the store is unchanged then.
  virtual base::Status set(std::string_view key, std::string_view value) = 0;
  // Adds `tail` to the end of the value; a missing value counts as empty. Limits as for set(), but with
  // max_appended_bytes.
  virtual base::Status append(std::string_view key, std::string_view tail) = 0;
  // Adds to the decimal number at `key` and returns the sum; a missing number counts as 0. INVALID_ARGUMENT if the
  // value is no number.
  virtual base::Result<std::int64_t> add(std::string_view key, std::int64_t delta) = 0;
  // Sets `desired` if the value equals `expected`, or if the key is missing and `expected` is empty. Returns the value
  // afterwards. For a missing key with a non-empty `expected` it returns `expected`, as torch's store does.
  virtual base::Result<std::string> compare_set(std::string_view key, std::string_view expected,
                                                std::string_view desired) = 0;
  virtual bool erase(std::string_view key) = 0;

  // Returns the value, valid until the store changes; nullptr if the key does not exist.
  virtual const std::string* find(std::string_view key) const = 0;
  std::optional<std::string> get(std::string_view key) const {
    const std::string* value = find(key);
    return value == nullptr ? std::nullopt : std::optional(*value);
  }
  virtual std::size_t size() const = 0;  // number of keys, without queues
  // Visits in no particular order. `visit` must not change the store.
  virtual void for_each_key(const std::function<void(std::string_view key)>& visit) const = 0;

  // Queues are first in, first out. Their names are separate from the keys. Limits as for set(). A push ends at most
  // one wait for that name.
  virtual base::Status queue_push(std::string_view name, std::string_view value) = 0;
  virtual std::optional<std::string> queue_pop(std::string_view name) = 0;
  virtual std::size_t queue_size(std::string_view name) const = 0;

  // `ready` is called once, when all keys exist; a queue with entries counts as existing. If all exist already, `ready`
  // is called from within wait(), which then returns 0. Waits that began earlier are served first.
  virtual WaitId wait(std::vector<std::string> keys, std::function<void()> ready) = 0;
  // Returns true if the wait was still pending; `ready` is then not called.
  virtual bool cancel_wait(WaitId id) = 0;
  // Returns the keys that a pending wait still misses, in the order in which the caller passed them. Empty if the wait
  // is no longer pending.
  virtual std::vector<std::string> missing_keys(WaitId id) const = 0;
};

}  // namespace muster::rendezvous
