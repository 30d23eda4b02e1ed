// Reads journals of jobs for everyone who asks: one thread for all of them, results on the loop.
//
// Methods are called on the loop thread but for journal_changed() and journal_ended(), which any thread may call.
// Readers take turns, 2 MiB of a file each, so a long search holds up nobody for long. Costs a descriptor for each
// cursor, and a page of memory for each next() that runs.
//
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

#include "base/loop.h"
#include "base/status.h"
#include "launcherd/output/log_cursor.h"

namespace muster::launcherd::inline output {

class LogReader {
 public:
  using Query = LogQuery;
  using Done = std::function<void(base::Result<LogPage>)>;

  // The loop must outlive it.
  static base::Result<std::unique_ptr<LogReader>> start(base::Loop& loop);
  ~LogReader();  // waits for the slice under way; no callback comes any more
  LogReader(const LogReader&) = delete;
  LogReader& operator=(const LogReader&) = delete;

  // Never fails: what is wrong with the query or the file is the result of next(). A file that is not there is empty.
  // With `follow`, of a job that has not ended: journal_ended() must come after.
  std::uint64_t open(Query query);
  // The next page, which has chunks or is_end. With `follow` it comes when there is more, or when the journal has
  // ended. One at a time for each cursor. After an error (LogCursor::read's) the cursor is of no use but to close().
  void next(std::uint64_t cursor, Done done);
  // A callback that has not come yet does not come any more.
  void close(std::uint64_t cursor);

  // The file may be read up to `readable`: JournalSink::OnFlush says when. It counts as being written from now on.
  void journal_changed(const std::string& path, std::uint64_t readable);
  // Nobody writes the file any more: its JournalSink is gone. Those who follow it get the rest, and its end.
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

  struct Reading {  // a cursor, as the thread knows it
    std::unique_ptr<LogCursor> cursor;
    bool is_asked = false;     // next() waits
    bool is_dry = false;       // until its journal changes
    bool is_followed = false;  // and not ended
  };

  explicit LogReader(base::Loop& loop) : loop_(loop) {}

  void put(Command command);
  void run();
  bool take_news();
  void take(Open command);
  void take(const Next& command);
  void take(const Close& command);
  void take(const Ended& command);
  void wake(const std::string& path);
  std::vector<std::uint64_t> runnable() const;
  void serve(std::uint64_t id, Reading* reading);
  void answer(std::uint64_t id, base::Result<LogPage> page);
  void deliver(std::uint64_t id, base::Result<LogPage> page);

  base::Loop& loop_;
  std::map<std::uint64_t, Done> waiting_;  // of the loop, as is the next
  std::uint64_t last_cursor_ = 0;
  std::shared_ptr<LogReader*> self_ = std::make_shared<LogReader*>(this);  // of the loop; gone when we are

  std::map<std::uint64_t, Reading> readings_;      // of the thread, as is the next
  std::map<std::string, std::uint64_t> readable_;  // of journals that are written

  std::mutex mutex_;
  std::condition_variable news_;
  std::deque<Command> commands_;                  // guarded by mutex_, as are the next ones
  std::map<std::string, std::uint64_t> changed_;  // since the thread looked
  bool is_ending_ = false;

  std::thread thread_;
};

}  // namespace muster::launcherd::output
