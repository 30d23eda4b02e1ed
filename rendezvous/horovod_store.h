// The key-value store of one Horovod generation. It has scopes of keys, and clears a scope when all its ranks have
// finished.
//
// Protocol: the store behaves like horovodrun's rendezvous server (horovod 0.28.1, runner/http/http_server.py), except
// that it counts the finished ranks of each scope separately.
// HorovodPlan lists the scopes of a world and the number of ranks in each. In such a scope, finish(rank) only records
// that the rank no longer needs the scope. After finish() of all its ranks, the store clears the scope. A program can
// then use the scope again, because it may shut Horovod down and initialise it again in one generation. A rank that
// puts its key again no longer counts as finished.
// All other scopes belong to process sets. There, finish(key) removes that key.
//
// Limits: StoreLimits.
// Owner: the agent on rank 0's host. There is one store for each generation, or renew() begins the next one.
// Thread: the loop's.
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
  std::string name;  // the ranks' HOROVOD_HOSTNAME
  std::size_t local_size = 0;
};

struct HorovodPlan {
  std::map<std::string, std::size_t, std::less<>>
      finishers;  // for each scope, the number n of its ranks, which are 0 to n-1
};

// Returns the scopes of a world, with hosts in order: global, local_<name> for every host, cross_<local rank> for every
// local rank.
HorovodPlan make_horovod_plan(std::span<const HorovodHost> hosts);

// INVALID_ARGUMENT, with a message, if a length exceeds `limits`.
base::Status check_horovod_lengths(const StoreLimits& limits, std::string_view scope, std::string_view key,
                                   std::size_t value_bytes);

class HorovodStore {
 public:
  struct Change {
    enum class Kind { kSet, kErased, kCleared };
    Kind kind = Kind::kSet;
    std::string_view key;  // for kSet and kErased; valid during the call
    HorovodValue value;    // for kSet
  };
  using Watch = std::function<void(const Change&)>;  // must change neither the store nor its watches
  using WatchId = std::uint64_t;

  explicit HorovodStore(HorovodPlan plan, StoreLimits limits = {}) : plan_(std::move(plan)), limits_(limits) {}

  // INVALID_ARGUMENT if the scope, key or value is too long. RESOURCE_EXHAUSTED if the store is full. The store is
  // unchanged then.
  base::Status put(std::string_view scope, std::string_view key, HorovodValue value);
  HorovodValue get(std::string_view scope, std::string_view key) const;  // null if it does not exist
  void finish(std::string_view scope, std::string_view key);
  // Begins another generation of an elastic job: clears all scopes and finished ranks, and replaces the plan. Watches
  // stay, and are called for each cleared scope. So a cache clears its copy before it answers a later put.
  void renew(HorovodPlan plan);

  // Calls `watch` for every existing key of the scope before it returns, and afterwards for every change.
  WatchId watch(std::string_view scope, Watch watch);
  void unwatch(std::string_view scope, WatchId id);

  std::size_t size() const { return keys_; }  // number of keys in all scopes
  std::size_t total_bytes() const { return total_bytes_; }

 private:
  struct Scope {
    std::map<std::string, HorovodValue, std::less<>> values;
    std::set<std::size_t> finished;  // ranks; only for scopes of the plan
  };
  using Scopes = std::map<std::string, Scope, std::less<>>;

  base::Status check_room(std::string_view scope, std::string_view key, std::size_t value,
                          const HorovodValue& old) const;
  void finish_planned(std::string_view scope, std::string_view key, std::size_t finishers);
  void withdraw_finish(std::string_view name, Scope& scope, std::string_view key) const;
  void erase(Scopes::iterator scope, std::string_view key);
  void notify(std::string_view scope, const Change& change) const;

  HorovodPlan plan_;
  const StoreLimits limits_;
  Scopes scopes_;
  std::map<std::string, std::map<WatchId, Watch>, std::less<>> watches_;
  WatchId next_watch_ = 1;
  std::size_t keys_ = 0;
  std::size_t total_bytes_ = 0;  // bytes of scope names, keys and values; counts the scope's name once for each key
};

// The store behind the HTTP server of the same host. The store must outlive it.
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
  // `meetings` outlives this object.
  void use_meetings(HostMeetings& meetings) { meetings_ = &meetings; }
  HostMeetings* meetings() const override { return meetings_; }

 private:
  HorovodStore& store_;
  HostMeetings* meetings_ = nullptr;
  HorovodWaits waits_;
  std::map<std::string, HorovodStore::WatchId, std::less<>> watches_;  // for scopes in which a wait was made
};

}  // namespace muster::rendezvous
