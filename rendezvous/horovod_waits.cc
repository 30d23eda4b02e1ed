#include "rendezvous/horovod_waits.h"

#include <vector>

namespace muster::rendezvous {

base::Status too_many_waits() {
  return base::resource_exhausted("too many clients wait for keys already");
}

HorovodKeys::WaitId HorovodWaits::add(std::string_view scope, std::string_view key, HorovodKeys::GetDone& done) {
  if (waits_.size() >= bound_) return 0;
  const HorovodKeys::WaitId id = next_++;
  Name name(scope, key);
  by_name_[name].insert(id);
  waits_.emplace(id, Wait{std::move(name), std::move(done)});
  return id;
}

void HorovodWaits::cancel(HorovodKeys::WaitId id) {
  (void)take(id);
}

// Null if the wait was cancelled or answered.
HorovodKeys::GetDone HorovodWaits::take(HorovodKeys::WaitId id) {
  const auto found = waits_.find(id);
  if (found == waits_.end()) return nullptr;
  const auto same = by_name_.find(found->second.name);
  same->second.erase(id);
  if (same->second.empty()) by_name_.erase(same);
  HorovodKeys::GetDone done = std::move(found->second.done);
  waits_.erase(found);
  return done;
}

void HorovodWaits::answer(std::string_view scope, std::string_view key, const HorovodValue& value) {
  if (waits_.empty()) return;
  const auto found = by_name_.find(Name(scope, key));
  if (found == by_name_.end()) return;
  const std::vector<HorovodKeys::WaitId> ids(found->second.begin(), found->second.end());
  for (const HorovodKeys::WaitId id : ids) {
    if (const auto done = take(id)) done(value);
  }
}

void HorovodWaits::fail(std::string_view scope, const base::Status& why) {
  std::vector<HorovodKeys::WaitId> ids;
  for (const auto& [id, wait] : waits_) {
    if (wait.name.first == scope) ids.push_back(id);
  }
  for (const HorovodKeys::WaitId id : ids) {
    if (const auto done = take(id)) done(why);
  }
}

}  // namespace muster::rendezvous
