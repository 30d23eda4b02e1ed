// Stands before a job's keys of Horovod, and passes on the report that a generation has ended its first collective.
//
// Protocol: PUT /muster.elastic/first_collective with the generation's number. Rank 0 sends it if it uses libmuster
// (python/muster/next_world.py). The value is not stored. All other requests go to the job's keys unchanged.
//
// Owner: JobStores. The keys outlive it.
// Thread: the loop's.
// Errors: INVALID_ARGUMENT if the value is not the number of a generation after the first, or, in a job whose ranks
// change, not that of the present one.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <utility>

#include "rendezvous/horovod_keys.h"

namespace muster::agent::inline job {

class CollectiveReport final : public rendezvous::HorovodKeys {
 public:
  // `on_first` is called once for a generation, and only once if HorovodKeys::generation() has no value.
  CollectiveReport(rendezvous::HorovodKeys& keys, std::function<void(int generation)> on_first)
      : keys_(keys), on_first_(std::move(on_first)) {}

  void put(std::string_view scope, std::string_view key, rendezvous::HorovodValue value, Done done) override;
  void get(std::string_view scope, std::string_view key, GetDone done) override {
    keys_.get(scope, key, std::move(done));
  }
  WaitId wait(std::string_view scope, std::string_view key, GetDone done) override {
    return keys_.wait(scope, key, std::move(done));
  }
  void cancel_wait(WaitId id) override { keys_.cancel_wait(id); }
  void finish(std::string_view scope, std::string_view key, Done done) override {
    keys_.finish(scope, key, std::move(done));
  }
  std::optional<int> generation() const override { return keys_.generation(); }

 private:
  rendezvous::HorovodKeys& keys_;
  const std::function<void(int generation)> on_first_;
  std::optional<int> reported_;  // the newest generation that was reported
};

}  // namespace muster::agent::job
