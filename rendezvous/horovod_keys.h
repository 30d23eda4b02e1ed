// The requests of Horovod's workers to their rendezvous server: keys in scopes, with three verbs. A fourth verb serves
// our own ranks (agent/job/session_socket.h), which wait instead of polling. The HTTP server works with any
// implementation: the job's own store (horovod_store.h) or a host's cache of it (horovod_cache.h). In an elastic job,
// agent/job/live_keys.h stands before one of the two and holds back some answers.
//
// Thread: the loop's, for all calls and callbacks.
// `done` is called exactly once, within the call or later. If the implementation is destroyed first, it is not called.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace muster::rendezvous {

// The bytes of a value. They are shared, because one value is sent to every rank of the job. Null means that the key
// does not exist.
using HorovodValue = std::shared_ptr<const std::string>;

class HostMeetings;

inline HorovodValue make_horovod_value(std::string bytes) {
  return std::make_shared<const std::string>(std::move(bytes));
}

class HorovodKeys {
 public:
  using Done = std::function<void(base::Status)>;
  using GetDone = std::function<void(base::Result<HorovodValue>)>;
  using WaitId = std::uint64_t;

  virtual ~HorovodKeys() = default;

  // Stores or overwrites; `value` is not null. INVALID_ARGUMENT if too long, RESOURCE_EXHAUSTED if full; the keys are
  // unchanged then.
  virtual void put(std::string_view scope, std::string_view key, HorovodValue value, Done done) = 0;
  // Never waits for the key. Null if it does not exist.
  virtual void get(std::string_view scope, std::string_view key, GetDone done) = 0;
  // Waits until the key exists, which may be never, and passes its value to `done`. `done` may be called from inside
  // another caller's put, so it must call no function of these keys except cancel_wait(). Returns 0 if `done` was
  // called within this call, either with a value or with RESOURCE_EXHAUSTED (too many waits).
  virtual WaitId wait(std::string_view scope, std::string_view key, GetDone done) = 0;
  // Removes the wait without an answer. No effect if the wait was already answered.
  virtual void cancel_wait(WaitId id) = 0;
  // Notes that rank `key` has finished with this scope, as HTTP's DELETE does. Ok even if the key never existed.
  virtual void finish(std::string_view scope, std::string_view key, Done done) = 0;
  // Returns the number of the present generation, for the answer to GET /rank_and_size. nullopt if the ranks never
  // change, so that nobody asks.
  virtual std::optional<int> generation() const { return std::nullopt; }
  // Returns the fences of this host if the job's hosts form a tree, else nullptr.
  virtual HostMeetings* meetings() const { return nullptr; }
};

}  // namespace muster::rendezvous
