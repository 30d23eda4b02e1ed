// What Horovod's workers ask of their rendezvous server: keys of scopes, with three verbs; and a fourth one, for our
// own ranks (agent/job/session_socket.h), which wait instead of asking again and again. The HTTP server answers for
// any implementation: the job's own store (horovod_store.h) or a host's cache of it (horovod_cache.h). What a later
// elastic mode must hold back (GET /rank_and_size/…) is another implementation in front of these.
//
// All calls and all callbacks on the loop thread. `done` is called exactly once, within the call or later; not at all
// when the implementation is destroyed first.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace muster::rendezvous {

// Bytes of a value; shared, because one value is sent to every rank of the job. Null: the key is not there.
using HorovodValue = std::shared_ptr<const std::string>;

inline HorovodValue make_horovod_value(std::string bytes) {
  return std::make_shared<const std::string>(std::move(bytes));
}

class HorovodKeys {
 public:
  using Done = std::function<void(base::Status)>;
  using GetDone = std::function<void(base::Result<HorovodValue>)>;
  using WaitId = std::uint64_t;

  virtual ~HorovodKeys() = default;

  // Stores or overwrites; `value` is not null. INVALID_ARGUMENT (too long), RESOURCE_EXHAUSTED (full): unchanged.
  virtual void put(std::string_view scope, std::string_view key, HorovodValue value, Done done) = 0;
  // Never waits for the key to appear: null then.
  virtual void get(std::string_view scope, std::string_view key, GetDone done) = 0;
  // Answered when the key is there, which may be never: then not at all. `done` may come from inside the put of
  // another: it must call nothing of these keys but cancel_wait(). Returns 0 when it was answered within the call, with
  // RESOURCE_EXHAUSTED when too many wait.
  virtual WaitId wait(std::string_view scope, std::string_view key, GetDone done) = 0;
  // No answer any more; of an id that was answered: nothing.
  virtual void cancel_wait(WaitId id) = 0;
  // "The rank `key` has finished with this scope": HTTP's DELETE. Ok also for what was never there.
  virtual void finish(std::string_view scope, std::string_view key, Done done) = 0;
};

}  // namespace muster::rendezvous
