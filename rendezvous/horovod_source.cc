#include "rendezvous/horovod_source.h"

#include <utility>

namespace muster::rendezvous {
namespace {

HorovodChange::Kind kind_of(HorovodStore::Change::Kind kind) {
  switch (kind) {
    case HorovodStore::Change::Kind::kSet:
      return HorovodChange::Kind::kSet;
    case HorovodStore::Change::Kind::kErased:
      return HorovodChange::Kind::kErased;
    case HorovodStore::Change::Kind::kCleared:
      break;
  }
  return HorovodChange::Kind::kCleared;
}

}  // namespace

HorovodStoreSource::~HorovodStoreSource() {
  for (const auto& [id, watched] : watches_) store_.unwatch(watched.scope, watched.id);
}

HorovodSource::WatchId HorovodStoreSource::watch(std::string_view scope, Watch watch) {
  const WatchId id = next_++;
  watch({.kind = HorovodChange::Kind::kBegin});
  const auto inner = store_.watch(scope, [this, id, watch](const HorovodStore::Change& change) {
    if (id != putting_) watch({.kind = kind_of(change.kind), .key = change.key, .value = change.value});
  });
  watch({.kind = HorovodChange::Kind::kSynced});
  watches_.emplace(id, Watched{std::string(scope), inner});
  return id;
}

void HorovodStoreSource::unwatch(std::string_view scope, WatchId id) {
  const auto found = watches_.find(id);
  if (found == watches_.end()) return;
  store_.unwatch(scope, found->second.id);
  watches_.erase(found);
}

void HorovodStoreSource::put_from(WatchId own, std::string_view scope, std::string_view key, HorovodValue value,
                                  Done done) {
  putting_ = own;
  base::Status put = store_.put(scope, key, std::move(value));
  putting_ = 0;
  done(std::move(put));
}

void HorovodStoreSource::finish(std::string_view scope, std::string_view key, Done done) {
  store_.finish(scope, key);
  done(base::ok_status());
}

}  // namespace muster::rendezvous
