// The interface by which a host's cache of Horovod keys (horovod_cache.h) reaches the store on rank 0's host. It is
// asynchronous. It does not depend on the connection between the two agents; horovod_tcp_upstream.h implements it over
// TCP.
//
// A cache follows whole scopes, because every rank of a scope reads all of its values. Each change of a followed scope
// is one call of the listener, in the store's order. So there is one request for each scope and host, however many
// ranks poll for however many keys.
//
// Order, on which caches rely: `done` of a put or finish is called after all earlier changes of followed scopes have
// been reported. Earlier means that the store made them before that put or finish. Own puts are not reported; they
// count as made when their `done` is called with ok.
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
    // Begins a new copy of `scope`, which replaces all values reported before. on_set reports each value, up to
    // on_synced.
    virtual void on_begin(std::string_view scope) = 0;
    virtual void on_synced(std::string_view scope) = 0;
    virtual void on_set(std::string_view scope, std::string_view key, HorovodValue value) = 0;
    virtual void on_erased(std::string_view scope, std::string_view key) = 0;
    virtual void on_cleared(std::string_view scope) = 0;
    // Called when rank 0's host becomes unreachable. The upstream retries as long as it lives. When it succeeds, every
    // followed scope begins anew, and unanswered requests are sent again.
    virtual void on_lost() = 0;
  };

  virtual ~HorovodUpstream() = default;

  // Call it before the first request. Set nullptr before the listener is destroyed: no earlier `done` is called then.
  virtual void set_listener(Listener* listener) = 0;

  virtual void put(std::string_view scope, std::string_view key, HorovodValue value, Done done) = 0;
  virtual void finish(std::string_view scope, std::string_view key, Done done) = 0;
  virtual void follow(std::string_view scope) = 0;
  virtual bool is_connected() const = 0;
};

}  // namespace muster::rendezvous
