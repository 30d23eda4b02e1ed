// Watches the file by whose changes a job shows progress (--progress-file). It reads the file's size and time on a
// thread of its own, because a file system may hang.
//
// Owner: the ranks of the job's session.
// Thread: the loop thread only.
// Errors: a file that cannot be read counts as a file that does not exist.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/disk_thread.h"
#include "base/loop.h"
#include "base/status.h"

namespace muster::agent::inline job {

class ProgressFile {
 public:
  // `on_change` is called once for each watch(), at the first change that is seen.
  // check() holds up the loop for at most `patience` a second.
  ProgressFile(base::Loop& loop, std::function<void()> on_change,
               base::Duration patience = std::chrono::milliseconds(300));

  // Watches `path` from now on, once a second. It is below `workdir` if relative. Does nothing if it is empty.
  // RESOURCE_EXHAUSTED if no thread can be started.
  base::Status watch(const std::string& workdir, const std::string& path);
  // Looks for a change now, unless the file system is slow. Call it before the end of a rank is reported.
  void check();

 private:
  // State of the file. Any difference means that a program has written the file or replaced it.
  struct Mark {
    bool exists = false;
    std::int64_t mtime_ns = 0;
    std::int64_t size = 0;
    std::uint64_t inode = 0;

    bool operator==(const Mark&) const = default;
  };

  static Mark mark_of(const std::string& path);
  std::future<Mark> ask();
  void see(const Mark& now);

  base::Loop& loop_;
  const std::function<void()> on_change_;
  std::string path_;           // empty while nothing is watched
  std::optional<Mark> first_;  // of watch(); nullopt until the thread has answered
  int asked_ = 0;              // answers of the thread that are due
  bool is_late_ = false;       // the thread has not answered in time
  const base::Duration patience_;
  base::Duration left_{};  // of patience_, in this second
  base::Timer timer_;
  std::unique_ptr<base::DiskThread> thread_;  // null until something is watched
};

}  // namespace muster::agent::job
