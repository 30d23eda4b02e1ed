// One host's cache of Horovod keys: the verbs of ranks, and the changes that the store sends.
// Read followed() and get() first, then put_from(), then on_begin(), on_set() and on_synced(), then watch().
#include "rendezvous/horovod_cache.h"

#include <utility>

#include "base/strings.h"
#include "rendezvous/horovod_store.h"

namespace muster::rendezvous {
namespace {

// Returns true for the rank_<r> keys. Only the name of a thread depends on their values, so no rank waits for them.
bool is_hint(std::string_view key) {
  return key.starts_with("rank_");
}

}  // namespace

HorovodCache::HorovodCache(HorovodUpstream& upstream, StoreLimits limits) : upstream_(upstream), limits_(limits) {
  upstream_.set_listener(this);
}

HorovodCache::~HorovodCache() {
  upstream_.set_listener(nullptr);
}

void HorovodCache::put(std::string_view scope, std::string_view key, HorovodValue value, Done done) {
  put_from(0, scope, key, std::move(value), std::move(done));
}

void HorovodCache::put_from(WatchId own, std::string_view scope, std::string_view key, HorovodValue value, Done done) {
  if (auto bad = check_horovod_lengths(limits_, scope, key, value->size()); !bad.ok()) return done(std::move(bad));
  // Follow the scope before the put, so that the put's answer arrives after all values that the scope held at that
  // time.
  if (const auto begun = followed(scope); !begun.ok()) return done(begun.status());
  ++counts_.forwarded;
  upstream_.put(scope, key, value,
                [this, own, name = std::string(scope), key = std::string(key), value,
                 done = std::move(done)](base::Status status) {
                  if (status.ok()) set(name, key, value, own);
                  done(std::move(status));
                });
}

void HorovodCache::get(std::string_view scope, std::string_view key, GetDone done) {
  ++counts_.gets;
  if (!check_horovod_lengths(limits_, scope, key, 0).ok()) return done(HorovodValue());  // it is too long to exist
  const auto at = followed(scope);
  if (!at.ok()) return done(at.status());
  if (!(*at)->is_synced && upstream_.is_connected() && !is_hint(key)) {
    (*at)->waiting.push_back({std::string(key), std::move(done)});
    return;
  }
  done(look_up(**at, key));
}

HorovodKeys::WaitId HorovodCache::wait(std::string_view scope, std::string_view key, GetDone done) {
  base::Status status = check_horovod_lengths(limits_, scope, key, 0);
  if (status.ok()) {
    const auto at = followed(scope);
    const auto found = at.ok() ? look_up(**at, key) : base::Result<HorovodValue>(at.status());
    if (found.ok() && *found == nullptr) {
      const WaitId id = waits_.add(scope, key, done);
      if (id != 0) return id;
      status = too_many_waits();
    } else {
      done(found);
      return 0;
    }
  }
  done(std::move(status));
  return 0;
}

void HorovodCache::finish(std::string_view scope, std::string_view key, Done done) {
  if (!check_horovod_lengths(limits_, scope, key, 0).ok()) return done(base::ok_status());  // it is too long to exist
  ++counts_.forwarded;
  upstream_.finish(scope, key, std::move(done));
}

base::Result<HorovodCache::Scope*> HorovodCache::followed(std::string_view scope) {
  if (Scope* const known = find(scope); known != nullptr) return known;
  if (scopes_.size() >= kMaxFollowedScopes) {
    return base::resource_exhausted("Horovod cache: more than {} scopes, at {}", kMaxFollowedScopes,
                                    base::printable(scope));
  }
  Scope& begun = scopes_.emplace(scope, Scope{}).first->second;
  ++counts_.forwarded;
  upstream_.follow(scope);
  return &begun;
}

HorovodCache::Scope* HorovodCache::find(std::string_view scope) {
  const auto at = scopes_.find(scope);
  return at == scopes_.end() ? nullptr : &at->second;
}

base::Result<HorovodValue> HorovodCache::look_up(const Scope& scope, std::string_view key) const {
  if (!scope.refused.ok()) return scope.refused;
  const auto found = scope.values.find(key);
  return found == scope.values.end() ? HorovodValue() : found->second;
}

void HorovodCache::on_begin(std::string_view scope) {
  Scope* const at = find(scope);
  if (at == nullptr) return;
  drop(at->incoming);
  at->is_incoming = true;
  at->refused = base::ok_status();
}

void HorovodCache::on_synced(std::string_view scope) {
  Scope* const at = find(scope);
  if (at == nullptr || !at->is_incoming) return;
  at->is_incoming = false;
  drop(at->values);
  at->values.swap(at->incoming);
  at->is_synced = true;
  for (const auto& [id, watch] : at->watches) send_copy(*at, watch);
  answer_waiting(*at);
  // Some waits began after their key had reached `incoming` and before this swap. Answer them now.
  if (waits_.size() == 0) return;
  const std::string name(scope);
  const Values values = at->values;
  for (const auto& [key, value] : values) waits_.answer(name, key, value);
}

void HorovodCache::on_set(std::string_view scope, std::string_view key, HorovodValue value) {
  set(scope, key, std::move(value), 0);
}

// Sets the value here and at the children, except at the one with the watch `own`.
void HorovodCache::set(std::string_view scope, std::string_view key, HorovodValue value, WatchId own) {
  Scope* const at = find(scope);
  if (at == nullptr) return;
  store(*at, key, value);
  notify(*at, {.kind = HorovodChange::Kind::kSet, .key = key, .value = value}, own);
  // Copy the names, because a callback may change the memory to which the listener's names point.
  const std::string scope_name(scope);
  if (!at->refused.ok()) return waits_.fail(scope_name, at->refused);
  waits_.answer(scope_name, std::string(key), value);
}

void HorovodCache::store(Scope& scope, std::string_view key, HorovodValue value) {
  if (!scope.refused.ok()) return;
  Values& values = scope.is_incoming ? scope.incoming : scope.values;
  const auto found = values.find(key);
  const std::size_t old = found == values.end() ? 0 : found->second->size();
  const std::size_t added = value->size() + (found == values.end() ? key.size() : 0);
  // Allow twice the store's limits, because the cache holds a scope twice while it fetches the scope again. Our store
  // respects its own limits, so a larger amount comes from a broken or foreign peer.
  if (total_bytes_ - old + added > 2 * limits_.max_total_bytes || keys_ >= 2 * limits_.max_keys) {
    scope.refused = base::resource_exhausted(
        "Horovod cache: rank 0's host sent more than the limits of its store ({} bytes)", total_bytes_);
    drop(scope.values);
    drop(scope.incoming);
    return;
  }
  total_bytes_ = total_bytes_ - old + added;
  if (found != values.end()) {
    found->second = std::move(value);
    return;
  }
  ++keys_;
  values.emplace(key, std::move(value));
}

void HorovodCache::on_erased(std::string_view scope, std::string_view key) {
  Scope* const at = find(scope);
  if (at == nullptr) return;
  Values& values = at->is_incoming ? at->incoming : at->values;
  const auto found = values.find(key);
  if (found == values.end()) return;
  total_bytes_ -= found->first.size() + found->second->size();
  --keys_;
  values.erase(found);
  notify(*at, {.kind = HorovodChange::Kind::kErased, .key = key});
}

void HorovodCache::on_cleared(std::string_view scope) {
  Scope* const at = find(scope);
  if (at == nullptr) return;
  drop(at->is_incoming ? at->incoming : at->values);
  notify(*at, {.kind = HorovodChange::Kind::kCleared});
}

HorovodSource::WatchId HorovodCache::watch(std::string_view scope, Watch watch) {
  const auto at = followed(scope);
  if (!at.ok()) return 0;
  if ((*at)->is_synced) send_copy(**at, watch);
  const WatchId id = next_watch_++;
  (*at)->watches.emplace(id, std::move(watch));
  return id;
}

void HorovodCache::unwatch(std::string_view scope, WatchId id) {
  if (Scope* const at = find(scope); at != nullptr) at->watches.erase(id);
}

// Children get a copy after the scope is synced. Until then they get no change.
void HorovodCache::notify(const Scope& scope, const HorovodChange& change, WatchId except) {
  if (!scope.is_synced || scope.is_incoming || !scope.refused.ok()) return;
  for (const auto& [id, watch] : scope.watches) {
    if (id != except) watch(change);
  }
}

void HorovodCache::send_copy(const Scope& scope, const Watch& watch) {
  watch({.kind = HorovodChange::Kind::kBegin});
  for (const auto& [key, value] : scope.values) {
    watch({.kind = HorovodChange::Kind::kSet, .key = key, .value = value});
  }
  watch({.kind = HorovodChange::Kind::kSynced});
}

void HorovodCache::on_lost() {
  for (auto& [name, scope] : scopes_) {
    drop(scope.incoming);
    scope.is_incoming = false;
    answer_waiting(scope);
  }
}

void HorovodCache::drop(Values& values) {
  for (const auto& [key, value] : values) total_bytes_ -= key.size() + value->size();
  keys_ -= values.size();
  values.clear();
}

void HorovodCache::answer_waiting(Scope& scope) {
  for (WaitingGet& get : std::exchange(scope.waiting, {})) get.done(look_up(scope, get.key));
}

}  // namespace muster::rendezvous
