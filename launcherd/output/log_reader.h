// LogReader reads the journals of jobs for all clients on one thread, and returns the results on the loop.
//
// Thread: call all methods on the loop thread. journal_changed() and journal_ended() may be called from any thread.
// Cost: cursors take turns of 2 MiB of a file, so a long search delays no other reader for long. Each cursor uses one
// descriptor. Each next() in progress uses the memory of one page.
//
// Example:
//   const std::uint64_t cursor = reader->open({.path = path, .follow = true});
//   reader->next(cursor, [](base::Result<LogPage> page) { … });   // again after each page, until page->is_end
//   reader->close(cursor);
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "base/gate.h"
#include "base/loop.h"
#include "base/status.h"
#include "launcherd/output/log_cursor.h"

namespace muster::launcherd::inline output {

class LogReader {
 public:
  using Query = LogQuery;
  using Done = std::function<void(base::Result<LogPage>)>;

  // The loop must outlive the reader.
  static base::Result<std::unique_ptr<LogReader>> start(base::Loop& loop);
  ~LogReader();  // waits for the slice in progress; no callback comes afterwards
  LogReader(const LogReader&) = delete;
  LogReader& operator=(const LogReader&) = delete;

  // Never fails, because next() returns errors of the query or the file. A missing file counts as empty. Set `follow`
  // only for a job that has not ended, and call journal_ended() later.
  std::uint64_t open(Query query);
  // Requests the next page, which has chunks or is_end. With `follow` the page comes once more output exists or the
  // journal has ended. Request only one page per cursor at a time. After an error (see LogCursor::read) only close() is
  // useful.
  void next(std::uint64_t cursor, Done done);
  // Closes the cursor. A callback that has not run yet never runs.
  void close(std::uint64_t cursor);

  // Reports that the file may be read up to `readable` (see JournalSink::OnFlush). From then on the file counts as
  // being written.
  void journal_changed(const std::string& path, std::uint64_t readable);
  // Reports that the file's JournalSink is gone, so that no process writes the file. Followers get the remaining output
  // and the end.
  void journal_ended(const std::string& path);

 private:
  struct Open {
    std::uint64_t cursor;
    Query query;
  };
  struct Next {
    std::uint64_t cursor;
  };
  struct Close {
    std::uint64_t cursor;
  };
  struct Ended {
    std::string path;
  };
  using Command = std::variant<Open, Next, Close, Ended>;

  struct Reading {  // a cursor and its state on the reader's thread
    std::unique_ptr<LogCursor> cursor;
    bool is_requested = false;  // next() waits for a page
    bool is_dry = false;        // nothing to read until the journal changes
    bool is_followed = false;   // follows a journal that has not ended
  };

  explicit LogReader(base::Loop& loop) : loop_(loop) {}

  void put(Command command);
  void run();
  bool handle_events();
  void handle(Open command);
  void handle(const Next& command);
  void handle(const Close& command);
  void handle(const Ended& command);
  void wake(const std::string& path);
  std::vector<std::uint64_t> runnable() const;
  void serve(std::uint64_t id, Reading* reading);
  void answer(std::uint64_t id, base::Result<LogPage> page);
  void deliver(std::uint64_t id, base::Result<LogPage> page);

  base::Loop& loop_;
  std::map<std::uint64_t, Done> waiting_;  // used by the loop only, like the next member
  std::uint64_t last_cursor_ = 0;
  base::Gate gate_;  // declared before the thread, which wraps its answers in this gate

  std::map<std::uint64_t, Reading> readings_;      // used by the reader's thread only, like the next member
  std::map<std::string, std::uint64_t> readable_;  // for journals that are being written

  std::mutex mutex_;
  std::condition_variable work_arrived_;
  std::deque<Command> commands_;                  // guarded by mutex_, like the members below
  std::map<std::string, std::uint64_t> changed_;  // changes that the thread has not seen yet
  bool is_ending_ = false;

  std::thread thread_;
};

}  // namespace muster::launcherd::output
