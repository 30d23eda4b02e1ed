// One host's cache of the job's Horovod keys: the HTTP server of every host but rank 0's answers from it, so that
// starting n ranks costs rank 0's host O(n) requests and not n times n polls.
//
// It follows, whole and once, each scope that a rank of this host touches. A poll is answered from what has been told,
// 200 or 404, and never forwarded; a value that is there stays until the store clears it. put and finish are answered
// when the store has taken them. By the order of horovod_upstream.h a rank that has its answer sees, from then on,
// at least what it would have seen on the store itself at that moment: so after all ranks have finished a scope, the
// first put of the next round already finds the cache empty of the old one.
//
// A get in a scope that is still being fetched for the first time waits for that (one round trip; in §2.3's order of a
// worker its own put did so before); the rank_<r> name hints never wait, and nobody waits while rank 0's host cannot be
// reached: null then, which the worker takes as "not yet".
//
// On the loop. Owner: the agent; the upstream must outlive it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/horovod_keys.h"
#include "rendezvous/horovod_upstream.h"
#include "rendezvous/horovod_waits.h"
#include "rendezvous/store.h"

namespace muster::rendezvous {

class HorovodCache final : public HorovodKeys, private HorovodUpstream::Listener {
 public:
  struct Counts {
    std::uint64_t gets = 0;       // all answered here
    std::uint64_t forwarded = 0;  // puts, finishes and follows
  };

  explicit HorovodCache(HorovodUpstream& upstream, StoreLimits limits = {});
  ~HorovodCache() override;  // gets that wait are not answered any more
  HorovodCache(const HorovodCache&) = delete;
  HorovodCache& operator=(const HorovodCache&) = delete;

  void put(std::string_view scope, std::string_view key, HorovodValue value, Done done) override;
  void get(std::string_view scope, std::string_view key, GetDone done) override;
  // Also while rank 0's host cannot be reached: it is answered when the key has come after that.
  WaitId wait(std::string_view scope, std::string_view key, GetDone done) override;
  void cancel_wait(WaitId id) override { waits_.cancel(id); }
  void finish(std::string_view scope, std::string_view key, Done done) override;

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
    Values incoming;  // from on_begin to on_synced
    bool is_incoming = false;
    bool is_synced = false;  // values has been complete once
    base::Status refused;    // not ok: more than the limits; nothing of it is kept
    std::vector<WaitingGet> waiting;
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
  void store(Scope& scope, std::string_view key, HorovodValue value);
  void drop(Values& values);
  void answer_waiting(Scope& scope);

  HorovodUpstream& upstream_;
  const StoreLimits limits_;
  Scopes scopes_;
  HorovodWaits waits_;
  std::size_t total_bytes_ = 0;  // of keys and values
  std::size_t keys_ = 0;
  Counts counts_;
};

}  // namespace muster::rendezvous
