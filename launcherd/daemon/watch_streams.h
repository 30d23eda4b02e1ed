// Those who watch jobs: each gets the events of one job from the store, a page at a time, the next page when the
// transport has taken the last one. Nothing is kept in memory for who is slow. Loop thread only.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/ids.h"
#include "launcherd/service/api_handler.h"
#include "launcherd/store/job_store.h"

namespace muster::launcherd::inline daemon {

class WatchStreams {
 public:
  // `store` is borrowed and outlives it.
  explicit WatchStreams(JobStore* store) : store_(store) {}

  // Events of `job` with a number from `from` on, until its last one. NOT_FOUND through `replies`: no such job.
  Gone watch(const base::JobId& job, std::uint64_t from, Replies<v1::Event> replies);
  // Something of the job was stored.
  void changed(const base::JobId& job);

 private:
  struct Page {
    std::vector<StoredEvent> events;
    bool is_last = false;  // the job has ended, and no event comes after these
  };
  struct Watcher {
    base::JobId job;
    std::uint64_t after = 0;  // number of the last event that was sent
    Replies<v1::Event> replies;
    bool is_busy = false;   // a page is being read, or taken by the transport
    bool is_behind = true;  // there may be more in the store
  };

  static base::Result<Page> read_page(StoreReader& reader, const base::JobId& job, std::uint64_t after);
  void go_on(std::uint64_t number);
  void got(std::uint64_t number, const base::Result<Page>& page);
  void finish(std::uint64_t number, const base::Status& status);

  JobStore* const store_;
  std::map<std::uint64_t, Watcher> watchers_;
  std::multimap<base::JobId, std::uint64_t> by_job_;
  std::uint64_t next_ = 1;
  std::shared_ptr<bool> is_alive_ = std::make_shared<bool>(true);
};

}  // namespace muster::launcherd::daemon
