// How a host's cache of Horovod keys (horovod_cache.h) reaches the store on rank 0's host: asynchronous, over whatever
// connects the two agents (horovod_tcp_upstream.h is one carrier).
//
// Scopes are followed whole, as every rank of a scope reads all of its values: once a scope is followed, each change of
// it comes as one call of the listener, in the store's order. That makes one request per scope and host, however many
// ranks poll for however many keys.
//
// The order that caches rely on: when `done` of a put or a finish is called, all changes of followed scopes that the
// store made before it took that put or finish have been told. Own puts are not told back; they count as made when
// their `done` is called with ok.
//
// All calls and callbacks on the loop thread.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>

#include "base/status.h"
#include "rendezvous/horovod_keys.h"

namespace muster::rendezvous {

// Of one cache. A host needs one for each scope of its ranks and of their process sets.
inline constexpr std::size_t kMaxFollowedScopes = 1 << 16;

class HorovodUpstream {
 public:
  using Done = std::function<void(base::Status)>;

  class Listener {
   public:
    virtual ~Listener() = default;
    // What the store holds of `scope` follows as on_set calls, up to on_synced; it replaces what was told before.
    virtual void on_begin(std::string_view scope) = 0;
    virtual void on_synced(std::string_view scope) = 0;
    virtual void on_set(std::string_view scope, std::string_view key, HorovodValue value) = 0;
    virtual void on_erased(std::string_view scope, std::string_view key) = 0;
    virtual void on_cleared(std::string_view scope) = 0;
    // Rank 0's host cannot be reached now. The upstream tries again for as long as it lives; then every followed scope
    // begins anew and what has no answer yet is asked again.
    virtual void on_lost() = 0;
  };

  virtual ~HorovodUpstream() = default;

  // Before the first call. nullptr when the listener goes: no `done` given until then is called any more.
  virtual void set_listener(Listener* listener) = 0;

  virtual void put(std::string_view scope, std::string_view key, HorovodValue value, Done done) = 0;
  virtual void finish(std::string_view scope, std::string_view key, Done done) = 0;
  virtual void follow(std::string_view scope) = 0;
  virtual bool is_connected() const = 0;
};

}  // namespace muster::rendezvous
