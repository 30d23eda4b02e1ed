// Removes ended jobs when their retention time is over: their records in the store, and their output. At the start it
// also removes output without records, which stays behind if launcherd is killed between these two removals.
//
// Owner: Daemon.
// Thread: loop thread only; the store reads on its own thread.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/gate.h"
#include "base/ids.h"
#include "base/loop.h"
#include "launcherd/store/job_store.h"

namespace muster::launcherd::inline daemon {

class Retention {
 public:
  using OnLine = std::function<void(const std::string& line)>;

  // Borrowed objects must outlive this one. `on_line` receives a line about each job that could not be removed.
  Retention(base::Loop& loop, const base::Clock& clock, JobStore* store, std::string jobs_directory, OnLine on_line);

  void add(const base::JobId& job, base::WallTime forget_at);
  // Finds the jobs that ended under earlier launcherds, one page at a time.
  void load();
  // Removes jobs whose time has passed. A timer calls it every minute.
  void forget_due();

 private:
  struct Page {
    std::multimap<base::WallTime, base::JobId> ended;
    std::string next;
  };
  static base::Result<Page> read_page(StoreReader& reader, const std::string& token);
  using Jobs = std::vector<base::JobId>;
  static base::Result<Jobs> find_unknown(StoreReader& reader, const std::string& jobs_directory);
  void load_page(const std::string& token);
  void forget(const base::JobId& job);
  void forget(const base::JobId& job, Jobs elements);
  static base::Result<Jobs> find_elements(StoreReader& reader, const base::JobId& array);
  void remove_unknown();
  void remove_output(const base::JobId& job);

  base::Loop& loop_;
  const base::Clock& clock_;
  JobStore* const store_;
  const std::string jobs_directory_;
  const OnLine on_line_;
  Jobs unknown_;  // jobs that have a folder but no records
  base::Timer next_turn_;
  std::multimap<base::WallTime, base::JobId> due_;
  base::Timer timer_;
  base::Gate gate_;
};

}  // namespace muster::launcherd::daemon
