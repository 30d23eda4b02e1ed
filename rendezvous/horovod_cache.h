// One host's cache of the job's Horovod keys. The HTTP server of every host except rank 0's answers from it. So
// starting n ranks costs rank 0's host O(n) requests instead of n times n polls.
//
// The cache fetches each scope that a rank of this host uses, once and completely, and then receives its changes. It
// answers polls (200 or 404) from what it has received, and never forwards them. A value stays until the store clears
// it. The cache answers a put or finish when the store has carried it out.
//
// Order: the cache answers a put or finish only after it has received all earlier changes of the scopes that it fetches
// (horovod_upstream.h). So once all ranks have finished a scope, the cache drops the scope's values before it answers
// the next put.
//
// A get waits until the first fetch of its scope has ended, which takes one round trip. In practice a worker's gets do
// not wait: the worker puts its own key first, and the cache answers that put only after the fetch. Gets of the
// rank_<r> name hints never wait. While rank 0's host is unreachable, a get returns null at once, which means "not
// yet" to the worker.
//
// A cache is also a source (horovod_source.h): in a tree of hosts it serves the caches of its children. It forwards
// their puts and finishes, follows each scope that one of them follows, and passes on its changes.
//
// Owner: the agent. The upstream must outlive it.
// Thread: the loop's.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/horovod_keys.h"
#include "rendezvous/horovod_source.h"
#include "rendezvous/horovod_upstream.h"
#include "rendezvous/horovod_waits.h"
#include "rendezvous/store.h"

namespace muster::rendezvous {

class HorovodCache final : public HorovodKeys, public HorovodSource, private HorovodUpstream::Listener {
 public:
  using Done = HorovodKeys::Done;

  struct Counts {
    std::uint64_t gets = 0;       // the cache answers all of them itself
    std::uint64_t forwarded = 0;  // puts, finishes and follows that went to the store
  };

  explicit HorovodCache(HorovodUpstream& upstream, StoreLimits limits = {});
  ~HorovodCache() override;  // waiting gets get no answer
  HorovodCache(const HorovodCache&) = delete;
  HorovodCache& operator=(const HorovodCache&) = delete;

  void put(std::string_view scope, std::string_view key, HorovodValue value, Done done) override;
  void get(std::string_view scope, std::string_view key, GetDone done) override;
  // A wait may begin while rank 0's host is unreachable. The cache answers it once the key has arrived.
  WaitId wait(std::string_view scope, std::string_view key, GetDone done) override;
  void cancel_wait(WaitId id) override { waits_.cancel(id); }
  void finish(std::string_view scope, std::string_view key, Done done) override;

  // For the caches of this host's children.
  WatchId watch(std::string_view scope, Watch watch) override;
  void unwatch(std::string_view scope, WatchId id) override;
  void put_from(WatchId own, std::string_view scope, std::string_view key, HorovodValue value, Done done) override;

  // `meetings` outlives the cache's users.
  void use_meetings(HostMeetings& meetings) { meetings_ = &meetings; }
  HostMeetings* meetings() const override { return meetings_; }

  const Counts& counts() const { return counts_; }
  std::size_t total_bytes() const { return total_bytes_; }

 private:
  using Values = std::map<std::string, HorovodValue, std::less<>>;
  struct WaitingGet {
    std::string key;
    GetDone done;
  };
  struct Scope {
    Values values;
    Values incoming;  // filled from on_begin to on_synced
    bool is_incoming = false;
    bool is_synced = false;  // values has been complete at least once
    base::Status refused;    // not ok if the scope exceeds the limits; the cache then keeps none of its values
    std::vector<WaitingGet> waiting;
    std::map<WatchId, Watch> watches;  // of this host's children
  };
  using Scopes = std::map<std::string, Scope, std::less<>>;

  void on_begin(std::string_view scope) override;
  void on_synced(std::string_view scope) override;
  void on_set(std::string_view scope, std::string_view key, HorovodValue value) override;
  void on_erased(std::string_view scope, std::string_view key) override;
  void on_cleared(std::string_view scope) override;
  void on_lost() override;

  base::Result<Scope*> followed(std::string_view scope);
  Scope* find(std::string_view scope);
  base::Result<HorovodValue> look_up(const Scope& scope, std::string_view key) const;
  void set(std::string_view scope, std::string_view key, HorovodValue value, WatchId own);
  void store(Scope& scope, std::string_view key, HorovodValue value);
  static void notify(const Scope& scope, const HorovodChange& change, WatchId except = 0);
  static void send_copy(const Scope& scope, const Watch& watch);
  void drop(Values& values);
  void answer_waiting(Scope& scope);

  HorovodUpstream& upstream_;
  HostMeetings* meetings_ = nullptr;
  const StoreLimits limits_;
  Scopes scopes_;
  HorovodWaits waits_;
  std::size_t total_bytes_ = 0;  // bytes of keys and values
  std::size_t keys_ = 0;
  WatchId next_watch_ = 1;
  Counts counts_;
};

}  // namespace muster::rendezvous
