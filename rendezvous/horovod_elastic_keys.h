// The keys that a host's HTTP server serves in an elastic Horovod job. They forward to the keys of the present
// generation, and hold back the answers that depend on a decision of the launcher.
//
// Protocol: horovod 0.28.1, runner/elastic/rendezvous.py.
// - GET /rank_and_size/<host>:<local_rank> waits for answer(). Its answer is never 404 or empty, because Horovod reads
//   an empty body as rank 0 of a world of size 0.
// - PUT /worker_addresses/<host>:<local_rank> is kept here, and answered at once. The value has the key of the worker's
//   notification service, so no GET returns it.
// - PUT /global/rank_<r> is a worker's first request in a new world. Its answer waits for release(). Horovod's client
//   has no time limit for an answer, but waits only 30 s for a key. So workers that started early do not give up.
// - All other requests go to the generation's keys. Between two generations a GET finds nothing, which means "not yet"
//   to a worker, and a PUT or DELETE fails with UNAVAILABLE.
//
// If a worker asks again, its earlier request is answered with UNAVAILABLE. The server then closes that connection.
//
// Owner: the agent; the HTTP server must not outlive it. Requests that are held at its destruction get no answer.
// Thread: the loop's.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/horovod_keys.h"

namespace muster::rendezvous {

// The name of a slot in the paths of Horovod's requests: "<host>:<local_rank>".
struct HorovodSlot {
  std::string host;
  int local_rank = 0;

  friend auto operator<=>(const HorovodSlot&, const HorovodSlot&) = default;
};

struct HorovodElasticEvents {
  std::function<void(const HorovodSlot&)> on_rank_and_size;   // a worker waits for its numbers
  std::function<void(int rank)> on_first_put;                 // /global/rank_<r> is stored; its answer is held
  std::function<void(const HorovodSlot&)> on_worker_address;  // a worker can receive notices now
};

struct HorovodElasticLimits {
  std::size_t max_slots = 4096;  // slots with a held request or an address
  std::size_t max_address_bytes = 64 << 10;
};

class HorovodElasticKeys final : public HorovodKeys {
 public:
  explicit HorovodElasticKeys(HorovodElasticEvents events, HorovodElasticLimits limits = {});
  ~HorovodElasticKeys() override;
  HorovodElasticKeys(const HorovodElasticKeys&) = delete;
  HorovodElasticKeys& operator=(const HorovodElasticKeys&) = delete;

  // Begins a generation: forwards to `keys`, and holds the answers to first PUTs. nullptr ends the forwarding. `keys`
  // must outlive the next call. Held GETs stay; held PUTs of the generation before fail with UNAVAILABLE.
  void begin(HorovodKeys* keys);
  // Answers the held first PUTs, and holds no more of them until the next begin().
  void release();
  // Answers the held GET of a slot: "rank,size,local_rank,local_size,cross_rank,cross_size". False if none is held.
  bool answer(const HorovodSlot& slot, std::string numbers);
  // The slot's process ended. Its held GET fails with UNAVAILABLE, and its address is forgotten.
  void drop(const HorovodSlot& slot);

  // What the worker published for notices (horovod_worker_address.h); null if it has not.
  HorovodValue worker_address(const HorovodSlot& slot) const;
  bool is_held(const HorovodSlot& slot) const { return asked_.contains(slot); }
  std::size_t held_puts() const { return puts_.size(); }

  void put(std::string_view scope, std::string_view key, HorovodValue value, Done done) override;
  void get(std::string_view scope, std::string_view key, GetDone done) override;
  WaitId wait(std::string_view scope, std::string_view key, GetDone done) override;
  void cancel_wait(WaitId id) override;
  void finish(std::string_view scope, std::string_view key, Done done) override;

 private:
  void hold_get(std::string_view key, GetDone done);
  void keep_address(std::string_view key, HorovodValue value, Done done);
  void put_first(std::string_view scope, std::string_view key, int rank, HorovodValue value, Done done);
  void on_put_first(int rank, Done done);

  const HorovodElasticEvents events_;
  const HorovodElasticLimits limits_;
  HorovodKeys* keys_ = nullptr;
  bool is_holding_ = false;
  std::map<HorovodSlot, GetDone> asked_;
  std::map<int, Done> puts_;  // held answers to first PUTs, by rank
  std::map<HorovodSlot, HorovodValue> addresses_;
  std::shared_ptr<const int> generation_;  // answers of earlier generations' keys are recognised by it
};

}  // namespace muster::rendezvous
