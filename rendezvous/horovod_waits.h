// Who waits for which key, of the implementations of HorovodKeys: bounded, and safe against callbacks that come back
// in.
//
// Loop thread only. Owner: the keys.
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

  // 0: there are too many already; `done` is untouched then.
  HorovodKeys::WaitId add(std::string_view scope, std::string_view key, HorovodKeys::GetDone& done);
  void cancel(HorovodKeys::WaitId id);
  // All that wait for this key.
  void answer(std::string_view scope, std::string_view key, const HorovodValue& value);
  // All that wait for a key of this scope, which will not come.
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

// The answer to a wait that is one too many.
base::Status too_many_waits();

}  // namespace muster::rendezvous
