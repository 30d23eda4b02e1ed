// Streams the events of jobs to clients that watch them. Each client gets the events of one job from the store, page by
// page. A client gets its next page when the transport has sent the page before, so a slow client costs no more memory.
//
// Owner: Daemon.
// Thread: loop thread only.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/gate.h"
#include "base/ids.h"
#include "launcherd/service/api_handler.h"
#include "launcherd/store/job_store.h"

namespace muster::launcherd::inline daemon {

class WatchStreams {
 public:
  // `store` is borrowed and must outlive this object.
  explicit WatchStreams(JobStore* store) : store_(store) {}

  // Sends the events of `job` from number `from` until its last one. If no such job exists, `replies` gets NOT_FOUND.
  Gone watch(const base::JobId& job, std::uint64_t from, Replies<v1::Event> replies);
  // Call it when an event of the job was stored.
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
    bool is_busy = false;   // a page is being read or sent
    bool is_behind = true;  // the store may have more events
  };

  static base::Result<Page> read_page(StoreReader& reader, const base::JobId& job, std::uint64_t after);
  void go_on(std::uint64_t number);
  void got(std::uint64_t number, const base::Result<Page>& page);
  void finish(std::uint64_t number, const base::Status& status);

  JobStore* const store_;
  std::map<std::uint64_t, Watcher> watchers_;
  std::multimap<base::JobId, std::uint64_t> by_job_;
  std::uint64_t next_ = 1;
  base::Gate gate_;
};

}  // namespace muster::launcherd::daemon
