// The waits for keys, for implementations of HorovodKeys. The number of waits is bounded. Callbacks may call this
// object.
//
// Owner: the keys.
// Thread: the loop's.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "rendezvous/horovod_keys.h"

namespace muster::rendezvous {

class HorovodWaits {
 public:
  explicit HorovodWaits(std::size_t bound = std::size_t{1} << 20) : bound_(bound) {}

  // 0 if there are too many waits; `done` is unchanged then.
  HorovodKeys::WaitId add(std::string_view scope, std::string_view key, HorovodKeys::GetDone& done);
  void cancel(HorovodKeys::WaitId id);
  // Answers all waits for this key.
  void answer(std::string_view scope, std::string_view key, const HorovodValue& value);
  // Fails all waits for keys of this scope.
  void fail(std::string_view scope, const base::Status& why);

  std::size_t size() const { return waits_.size(); }

 private:
  using Name = std::pair<std::string, std::string>;  // scope and key
  struct Wait {
    Name name;
    HorovodKeys::GetDone done;
  };

  HorovodKeys::GetDone take(HorovodKeys::WaitId id);

  const std::size_t bound_;
  std::map<HorovodKeys::WaitId, Wait> waits_;
  std::map<Name, std::set<HorovodKeys::WaitId>> by_name_;
  HorovodKeys::WaitId next_ = 1;
};

// Returns the error that a caller of wait() gets if too many waits exist.
base::Status too_many_waits();

}  // namespace muster::rendezvous
