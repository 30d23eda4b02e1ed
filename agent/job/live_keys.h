// Horovod's keys in a job whose ranks change while it runs (docs/adr/0044). It stands between this host's servers and
// the keys of the present generation, and changes to those of the next one.
//
// Protocol: horovod 0.28.1's elastic workers. GET /rank_and_size/<host>:<local rank> asks for the numbers of the next
// generation. The answer is held until the launcher has decided, because an early or an empty answer ends the worker.
// PUT /worker_addresses/<host>:<local rank> names the worker's notification service. The value is kept here, and no GET
// returns it, because it has the key of that service.
// GET /muster.elastic/over is ours: ranks of the drop-in that join a world learn that it cannot form, and those that
// have joined it learn which ranks have failed. Only the launcher
// sets that key.
// All other requests go to the keys of the generation. While new processes start, they are held: a worker waits only
// 30 s for a peer's key, but any time for an answer.
//
// Owner: JobStores. It outlives the keys that it uses.
// Thread: the loop's.
// Errors: a request that the next generation or a lost store overtakes fails with UNAVAILABLE.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "proto/muster/v1/agent.pb.h"
#include "rendezvous/horovod_keys.h"

namespace muster::agent::inline job {

inline constexpr std::size_t kMaxHeldRequests = 65536;

class LiveKeys final : public rendezvous::HorovodKeys {
 public:
  struct Events {
    std::function<void(int local_rank)> on_check_in;  // once for each process and generation
    std::function<void(int rank)> on_first_put;       // while requests are held: PUT /global/rank_<rank>
  };

  explicit LiveKeys(Events events) : events_(std::move(events)) {}
  ~LiveKeys() override;
  LiveKeys(const LiveKeys&) = delete;
  LiveKeys& operator=(const LiveKeys&) = delete;

  // Uses `keys` from now on. Requests that wait for the keys before fail. Held requests go to the new keys, except for
  // the questions for numbers. The keys before may be destroyed afterwards. `local_ranks` are those that may ask.
  void use(rendezvous::HorovodKeys& keys, std::set<int> local_ranks, int generation = 0);
  // Holds all requests until use(), because new processes start. `local_ranks` may ask, too.
  void hold(const std::set<int>& local_ranks);
  // A process of the generation with this number has ended. Until use(), GET /muster.elastic/over returns the number,
  // and after it a line "RANK CAUSE" for each failed rank of all calls.
  void set_over(const v1::GenerationOver& over);
  // The store of the keys is lost: requests fail until use().
  void lose_store();
  // Answers the question of this local rank, if it has asked.
  void answer(int local_rank, const std::string& numbers);
  // The process has ended: drops its question and its address.
  void forget(int local_rank);
  bool has_asked(int local_rank) const { return asked_.contains(local_rank); }
  // Returns the value that the process has put under /worker_addresses. Empty if it has put none.
  std::string notification_address(int local_rank) const;

  void put(std::string_view scope, std::string_view key, rendezvous::HorovodValue value, Done done) override;
  void get(std::string_view scope, std::string_view key, GetDone done) override;
  WaitId wait(std::string_view scope, std::string_view key, GetDone done) override;
  void cancel_wait(WaitId id) override;
  void finish(std::string_view scope, std::string_view key, Done done) override;
  std::optional<int> generation() const override { return generation_; }

 private:
  struct Open {
    std::function<void(const base::Status&)> fail;
    std::optional<WaitId> wait{};  // of the keys in use
  };

  void ask(std::string_view key, GetDone done);
  void put_address(std::string_view key, const rendezvous::HorovodValue& value, const Done& done);
  // Returns true if the caller must not continue: the request was held, or has failed.
  bool is_stopped(std::function<void()> again, const std::function<void(const base::Status&)>& fail);
  Done track(Done done);
  void fail_open();

  const Events events_;
  rendezvous::HorovodKeys* keys_ = nullptr;  // nullptr before the first use() and while the store is lost
  int generation_ = 0;                       // the number of the last use()
  bool is_holding_ = false;
  std::set<int> local_ranks_;
  std::string over_;                           // the value of /muster.elastic/over; empty if there is none
  std::map<int, std::vector<GetDone>> asked_;  // by local rank
  std::map<int, std::string> addresses_;       // by local rank
  std::vector<std::function<void()>> held_;    // requests, in order
  std::map<std::uint64_t, Open> open_;         // requests that the keys have not answered
  std::uint64_t next_ = 1;
};

}  // namespace muster::agent::job
