// What a HorovodOrigin serves to other hosts' caches: the store on rank 0's host, or the cache of a host that has
// children in the tree of the job's hosts (host_tree.h).
//
// Order, on which caches rely: `done` of a put or finish is called after all earlier changes of the scope have been
// reported to its watches.
// Thread: the loop's, for all calls and callbacks.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "base/status.h"
#include "rendezvous/horovod_keys.h"
#include "rendezvous/horovod_store.h"

namespace muster::rendezvous {

// One call of HorovodUpstream::Listener.
struct HorovodChange {
  enum class Kind { kBegin, kSet, kErased, kCleared, kSynced };
  Kind kind = Kind::kSet;
  std::string_view key{};  // for kSet and kErased; valid during the call
  HorovodValue value{};    // for kSet
};

class HorovodSource {
 public:
  using Done = std::function<void(base::Status)>;
  using Watch = std::function<void(const HorovodChange&)>;  // must call no function of the source
  using WatchId = std::uint64_t;

  virtual ~HorovodSource() = default;

  // Reports a whole copy of the scope (kBegin, kSet for each key, kSynced), within this call or later, and then every
  // change. A later copy replaces the one before. Returns 0 if there are too many scopes.
  virtual WatchId watch(std::string_view scope, Watch watch) = 0;
  virtual void unwatch(std::string_view scope, WatchId id) = 0;
  // Puts a value for the host with the watch `own`, which does not get this change. 0 means no watch.
  virtual void put_from(WatchId own, std::string_view scope, std::string_view key, HorovodValue value, Done done) = 0;
  virtual void finish(std::string_view scope, std::string_view key, Done done) = 0;
};

// The store as a source. It must outlive this object.
class HorovodStoreSource final : public HorovodSource {
 public:
  explicit HorovodStoreSource(HorovodStore& store) : store_(store) {}
  ~HorovodStoreSource() override;
  HorovodStoreSource(const HorovodStoreSource&) = delete;
  HorovodStoreSource& operator=(const HorovodStoreSource&) = delete;

  WatchId watch(std::string_view scope, Watch watch) override;
  void unwatch(std::string_view scope, WatchId id) override;
  void put_from(WatchId own, std::string_view scope, std::string_view key, HorovodValue value, Done done) override;
  void finish(std::string_view scope, std::string_view key, Done done) override;

 private:
  struct Watched {
    std::string scope;
    HorovodStore::WatchId id = 0;
  };

  HorovodStore& store_;
  std::map<WatchId, Watched> watches_;
  WatchId next_ = 1;
  WatchId putting_ = 0;  // the watch that does not get the present change
};

}  // namespace muster::rendezvous
