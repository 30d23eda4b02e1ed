// Forgets ended jobs when their time has come: their records in the store, and their output. Loop thread only.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/ids.h"
#include "base/loop.h"
#include "launcherd/store/job_store.h"

namespace muster::launcherd {

class Retention {
 public:
  // Borrowed objects outlive it.
  Retention(base::Loop& loop, const base::Clock& clock, JobStore* store, std::string jobs_directory);

  void add(const base::JobId& job, base::WallTime forget_at);
  // Finds the jobs that ended under earlier launcherds, a page at a time.
  void load() { load_page(""); }
  // What is due; called by itself every minute.
  void forget_due();

 private:
  struct Page {
    std::multimap<base::WallTime, base::JobId> ended;
    std::string next;
  };
  static base::Result<Page> read_page(StoreReader& reader, const std::string& token);
  void load_page(const std::string& token);
  void forget(const base::JobId& job);

  const base::Clock& clock_;
  JobStore* const store_;
  const std::string jobs_directory_;
  std::multimap<base::WallTime, base::JobId> due_;
  base::Timer timer_;
  std::shared_ptr<bool> is_alive_ = std::make_shared<bool>(true);
};

}  // namespace muster::launcherd
