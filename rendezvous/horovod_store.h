// The key-value store of one Horovod generation: scopes of keys, cleared when all ranks of a scope have finished.
//
// Protocol: what horovodrun's rendezvous server keeps (horovod 0.28.1, runner/http/http_server.py), except that every
// scope counts its own finishers. In a scope of the plan finish(rank) only notes that this rank needs the scope no
// more; when all have said so, keys and finishers are cleared and the scope can be used again (shutdown and init in
// one generation); a rank that puts its key anew has not finished. Any other scope is ad hoc (process sets):
// finish(key) removes that key.
//
// Bounded by StoreLimits. One store for each generation; owned by the agent on rank 0's host, on its loop thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "rendezvous/horovod_keys.h"
#include "rendezvous/horovod_waits.h"
#include "rendezvous/store.h"

namespace muster::rendezvous {

struct HorovodHost {
  std::string name;  // HOROVOD_HOSTNAME of its ranks
  std::size_t local_size = 0;
};

struct HorovodPlan {
  std::map<std::string, std::size_t, std::less<>> finishers;  // scope -> how many ranks must finish it; ranks 0..n-1
};

// Scopes of a world in host order: global, local_<name> of every host, cross_<local rank> of every local rank.
HorovodPlan make_horovod_plan(std::span<const HorovodHost> hosts);

// INVALID_ARGUMENT, with the sentence for it: longer than `limits` allow.
base::Status check_horovod_lengths(const StoreLimits& limits, std::string_view scope, std::string_view key,
                                   std::size_t value_bytes);

class HorovodStore {
 public:
  struct Change {
    enum class Kind { kSet, kErased, kCleared };
    Kind kind = Kind::kSet;
    std::string_view key;  // kSet, kErased; valid during the call
    HorovodValue value;    // kSet
  };
  using Watch = std::function<void(const Change&)>;  // must change neither the store nor its watches
  using WatchId = std::uint64_t;

  explicit HorovodStore(HorovodPlan plan, StoreLimits limits = {}) : plan_(std::move(plan)), limits_(limits) {}

  // INVALID_ARGUMENT: scope or key, or the value, is too long. RESOURCE_EXHAUSTED: the store is full. Unchanged then.
  base::Status put(std::string_view scope, std::string_view key, HorovodValue value);
  HorovodValue get(std::string_view scope, std::string_view key) const;  // null: not there
  void finish(std::string_view scope, std::string_view key);

  // Calls `watch` with every key of the scope at once, from within watch(), and then with every change.
  WatchId watch(std::string_view scope, Watch watch);
  void unwatch(std::string_view scope, WatchId id);

  std::size_t size() const { return keys_; }  // of keys in all scopes
  std::size_t total_bytes() const { return total_bytes_; }

 private:
  struct Scope {
    std::map<std::string, HorovodValue, std::less<>> values;
    std::set<std::size_t> finished;  // ranks; only in scopes of the plan
  };
  using Scopes = std::map<std::string, Scope, std::less<>>;

  base::Status check_room(std::string_view scope, std::string_view key, std::size_t value,
                          const HorovodValue& old) const;
  void finish_planned(std::string_view scope, std::string_view key, std::size_t finishers);
  void withdraw_finish(std::string_view name, Scope& scope, std::string_view key) const;
  void erase(Scopes::iterator scope, std::string_view key);
  void tell(std::string_view scope, const Change& change) const;

  const HorovodPlan plan_;
  const StoreLimits limits_;
  Scopes scopes_;
  std::map<std::string, std::map<WatchId, Watch>, std::less<>> watches_;
  WatchId next_watch_ = 1;
  std::size_t keys_ = 0;
  std::size_t total_bytes_ = 0;  // of scopes' names, keys and values, the names once for each key
};

// The store as what the HTTP server of the same host answers from; the store must outlive it.
class HorovodStoreKeys final : public HorovodKeys {
 public:
  explicit HorovodStoreKeys(HorovodStore& store) : store_(store) {}
  ~HorovodStoreKeys() override;
  HorovodStoreKeys(const HorovodStoreKeys&) = delete;
  HorovodStoreKeys& operator=(const HorovodStoreKeys&) = delete;

  void put(std::string_view scope, std::string_view key, HorovodValue value, Done done) override;
  void get(std::string_view scope, std::string_view key, GetDone done) override;
  WaitId wait(std::string_view scope, std::string_view key, GetDone done) override;
  void cancel_wait(WaitId id) override { waits_.cancel(id); }
  void finish(std::string_view scope, std::string_view key, Done done) override;

 private:
  HorovodStore& store_;
  HorovodWaits waits_;
  std::map<std::string, HorovodStore::WatchId, std::less<>> watches_;  // of scopes in which somebody has waited
};

}  // namespace muster::rendezvous
