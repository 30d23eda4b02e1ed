// The store of Horovod keys: the plan's scopes, put, finish, watches, and the keys for the HTTP server.
// Read put() and finish() first, then finish_planned() and withdraw_finish(), then HorovodStoreKeys.
#include "rendezvous/horovod_store.h"

#include <utility>

#include "base/strings.h"

namespace muster::rendezvous {

HorovodPlan make_horovod_plan(std::span<const HorovodHost> hosts) {
  HorovodPlan plan;
  std::size_t size = 0;
  for (const HorovodHost& host : hosts) {
    if (host.local_size == 0) continue;
    size += host.local_size;
    plan.finishers["local_" + host.name] += host.local_size;
    for (std::size_t local = 0; local < host.local_size; ++local) ++plan.finishers["cross_" + std::to_string(local)];
  }
  plan.finishers["global"] = size;
  return plan;
}

base::Status HorovodStore::put(std::string_view scope, std::string_view key, HorovodValue value) {
  MUSTER_CHECK(value != nullptr);
  const HorovodValue old = get(scope, key);
  MUSTER_RETURN_IF_ERROR(check_room(scope, key, value->size(), old));
  auto at = scopes_.find(scope);
  if (at == scopes_.end()) at = scopes_.emplace(scope, Scope{}).first;
  at->second.values.insert_or_assign(std::string(key), value);
  withdraw_finish(scope, at->second, key);
  if (old == nullptr) {
    ++keys_;
    total_bytes_ += scope.size() + key.size() + value->size();
  } else {
    total_bytes_ += value->size();
    total_bytes_ -= old->size();
  }
  notify(scope, {Change::Kind::kSet, key, std::move(value)});
  return base::ok_status();
}

base::Status check_horovod_lengths(const StoreLimits& limits, std::string_view scope, std::string_view key,
                                   std::size_t value_bytes) {
  const std::size_t name = scope.size() + key.size();
  if (name > limits.max_key_bytes) {
    return base::invalid_argument("Horovod store: a key of {} bytes; the limit is {}", name, limits.max_key_bytes);
  }
  if (value_bytes > limits.max_value_bytes) {
    return base::invalid_argument("Horovod store: a value of {} bytes for {}/{}; the limit is {}", value_bytes,
                                  base::printable(scope), base::printable(key), limits.max_value_bytes);
  }
  return base::ok_status();
}

base::Status HorovodStore::check_room(std::string_view scope, std::string_view key, std::size_t value,
                                      const HorovodValue& old) const {
  MUSTER_RETURN_IF_ERROR(check_horovod_lengths(limits_, scope, key, value));
  const std::size_t others = old == nullptr ? total_bytes_ + scope.size() + key.size() : total_bytes_ - old->size();
  if ((old == nullptr && keys_ >= limits_.max_keys) || others + value > limits_.max_total_bytes) {
    return base::resource_exhausted("Horovod store: full ({} keys, {} bytes) at {}/{}", keys_, total_bytes_,
                                    base::printable(scope), base::printable(key));
  }
  return base::ok_status();
}

HorovodValue HorovodStore::get(std::string_view scope, std::string_view key) const {
  const auto at = scopes_.find(scope);
  if (at == scopes_.end()) return nullptr;
  const auto found = at->second.values.find(key);
  return found == at->second.values.end() ? nullptr : found->second;
}

void HorovodStore::finish(std::string_view scope, std::string_view key) {
  if (const auto planned = plan_.finishers.find(scope); planned != plan_.finishers.end()) {
    finish_planned(scope, key, planned->second);
  } else if (const auto at = scopes_.find(scope); at != scopes_.end()) {
    erase(at, key);
  }
}

void HorovodStore::renew(HorovodPlan plan) {
  plan_ = std::move(plan);
  const Scopes old = std::exchange(scopes_, {});
  keys_ = 0;
  total_bytes_ = 0;
  for (const auto& [name, scope] : old) notify(name, {Change::Kind::kCleared, {}, nullptr});
}

void HorovodStore::finish_planned(std::string_view scope, std::string_view key, std::size_t finishers) {
  const auto rank = base::parse_decimal(key, static_cast<long>(finishers) - 1);
  if (!rank) return;  // `key` is not a rank of this scope
  auto at = scopes_.find(scope);
  if (at == scopes_.end()) at = scopes_.emplace(scope, Scope{}).first;
  // `finished` is a set and not a counter, because a worker repeats a request whose answer was lost.
  at->second.finished.insert(static_cast<std::size_t>(*rank));
  if (at->second.finished.size() < finishers) return;
  for (const auto& [name, value] : at->second.values) total_bytes_ -= scope.size() + name.size() + value->size();
  keys_ -= at->second.values.size();
  scopes_.erase(at);
  notify(scope, {Change::Kind::kCleared, {}, nullptr});
}

// If a rank publishes again, removes it from the scope's finished ranks. A repeated finish request may have added it
// after the scope was cleared.
void HorovodStore::withdraw_finish(std::string_view name, Scope& scope, std::string_view key) const {
  if (scope.finished.empty()) return;
  const auto planned = plan_.finishers.find(name);
  const auto rank = base::parse_decimal(key, static_cast<long>(planned->second) - 1);
  if (rank) scope.finished.erase(static_cast<std::size_t>(*rank));
}

void HorovodStore::erase(Scopes::iterator scope, std::string_view key) {
  const auto found = scope->second.values.find(key);
  if (found == scope->second.values.end()) return;
  const std::string name = scope->first;
  total_bytes_ -= name.size() + key.size() + found->second->size();
  --keys_;
  scope->second.values.erase(found);
  if (scope->second.values.empty()) scopes_.erase(scope);
  notify(name, {Change::Kind::kErased, key, nullptr});
}

HorovodStore::WatchId HorovodStore::watch(std::string_view scope, Watch watch) {
  if (const auto at = scopes_.find(scope); at != scopes_.end()) {
    for (const auto& [key, value] : at->second.values) watch({Change::Kind::kSet, key, value});
  }
  auto watches = watches_.find(scope);
  if (watches == watches_.end()) watches = watches_.emplace(scope, std::map<WatchId, Watch>{}).first;
  watches->second.emplace(next_watch_, std::move(watch));
  return next_watch_++;
}

void HorovodStore::unwatch(std::string_view scope, WatchId id) {
  const auto watches = watches_.find(scope);
  if (watches == watches_.end()) return;
  watches->second.erase(id);
  if (watches->second.empty()) watches_.erase(watches);
}

void HorovodStore::notify(std::string_view scope, const Change& change) const {
  const auto watches = watches_.find(scope);
  if (watches == watches_.end()) return;
  for (const auto& [id, watch] : watches->second) watch(change);
}

void HorovodStoreKeys::put(std::string_view scope, std::string_view key, HorovodValue value, Done done) {
  done(store_.put(scope, key, std::move(value)));
}

void HorovodStoreKeys::get(std::string_view scope, std::string_view key, GetDone done) {
  done(store_.get(scope, key));
}

HorovodStoreKeys::~HorovodStoreKeys() {
  for (const auto& [scope, id] : watches_) store_.unwatch(scope, id);
}

HorovodKeys::WaitId HorovodStoreKeys::wait(std::string_view scope, std::string_view key, GetDone done) {
  if (HorovodValue value = store_.get(scope, key)) {
    done(std::move(value));
    return 0;
  }
  const WaitId id = waits_.add(scope, key, done);
  if (id == 0) {
    done(too_many_waits());
    return 0;
  }
  if (!watches_.contains(scope)) {
    const auto watch = store_.watch(scope, [this, name = std::string(scope)](const HorovodStore::Change& change) {
      if (change.kind == HorovodStore::Change::Kind::kSet) waits_.answer(name, std::string(change.key), change.value);
    });
    watches_.emplace(scope, watch);
  }
  return id;
}

void HorovodStoreKeys::finish(std::string_view scope, std::string_view key, Done done) {
  store_.finish(scope, key);
  done(base::ok_status());
}

}  // namespace muster::rendezvous
