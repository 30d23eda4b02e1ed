// The interface by which a host's cache of Horovod keys (horovod_cache.h) reaches the store on rank 0's host. It is
// asynchronous. It does not depend on the connection between the two agents; horovod_tcp_upstream.h implements it over
// TCP.
//
// A cache follows whole scopes, because every rank of a scope reads all of its values. Each change of a followed scope
// is one call of the listener, in the store's order. So there is one request for each scope and host, however many
// ranks poll for however many keys.
// Order, on which caches rely: `done` of a put or finish is called after all earlier changes of followed scopes have
// been reported. A change is earlier if the store made it before that put or finish. A cache's own puts are not
// reported to it. It must treat a put as made once `done` is called with ok.
//
// Thread: the loop's, for all calls and callbacks.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>

#include "base/status.h"
#include "rendezvous/horovod_keys.h"

namespace muster::rendezvous {

// Limit for one cache. A host follows each scope of its ranks and of their process sets.
inline constexpr std::size_t kMaxFollowedScopes = 1 << 16;

class HorovodUpstream {
 public:
  using Done = std::function<void(base::Status)>;

  class Listener {
   public:
    virtual ~Listener() = default;
    // Begins a new copy of `scope`, which replaces all values reported before. on_set() then reports each value, and
    // on_synced() ends the copy.
    virtual void on_begin(std::string_view scope) = 0;
    virtual void on_synced(std::string_view scope) = 0;
    virtual void on_set(std::string_view scope, std::string_view key, HorovodValue value) = 0;
    virtual void on_erased(std::string_view scope, std::string_view key) = 0;
    virtual void on_cleared(std::string_view scope) = 0;
    // Called when rank 0's host becomes unreachable. The upstream retries as long as it lives. When a retry succeeds,
    // every followed scope begins anew, and the upstream sends unanswered requests again.
    virtual void on_lost() = 0;
  };

  virtual ~HorovodUpstream() = default;

  // Call it before the first request. Pass nullptr before the listener is destroyed. Afterwards no `done` of an earlier
  // request is called.
  virtual void set_listener(Listener* listener) = 0;

  virtual void put(std::string_view scope, std::string_view key, HorovodValue value, Done done) = 0;
  virtual void finish(std::string_view scope, std::string_view key, Done done) = 0;
  virtual void follow(std::string_view scope) = 0;
  virtual bool is_connected() const = 0;
};

}  // namespace muster::rendezvous
