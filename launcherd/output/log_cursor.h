// LogCursor is one reader's position in a job's journal, with its query, and produces the next page.
//
// Thread: one at a time. It reads the page cache, in slices, so that one thread can serve many cursors.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "launcherd/output/journal_reader.h"
#include "proto/muster/v1/launcher.pb.h"

namespace muster::launcherd::inline output {

struct LogQuery {
  std::string path = {};
  std::set<int> ranks = {};                  // empty means all ranks
  std::uint64_t position = 0;                // LogChunk.next_position of an earlier page; 0 means the beginning
  std::optional<base::WallTime> since = {};  // leave out output that is older
  // Return only about the last `tail_lines` lines that exist at the first read. 0 means all lines. Ignored if
  // `position` is set.
  std::int64_t tail_lines = 0;
  bool follow = false;  // for LogReader: also return later output
};

struct LogPage {
  std::vector<v1::LogChunk> chunks;  // kLogPage bytes of data, plus the rest of the last chunk (up to 1 MiB)
  std::uint64_t next_position = 0;
  bool is_end = false;  // true if no more output will come
};

inline constexpr std::size_t kLogPage = 256 * 1024;

class LogCursor {
 public:
  explicit LogCursor(LogQuery query) : query_(std::move(query)) {}

  enum class State {
    kPage,   // the page contains chunks
    kSlice,  // enough work for one turn; call again
    kDry,    // nothing more before `readable` or the end of the file
  };

  // `readable` is the offset at which to stop in a file that is being written. nullopt if no process writes the file.
  // Errors: INVALID_ARGUMENT and OUT_OF_RANGE if the query's position is neither 0 nor a LogChunk's next_position.
  // DATA_LOSS with the path and the offset. Errors of open and read. After an error the cursor cannot be used.
  base::Result<State> read(std::optional<std::uint64_t> readable, LogPage* page);

  const LogQuery& query() const { return query_; }

 private:
  base::Result<bool> open();
  base::Result<State> find_start(std::optional<std::uint64_t> readable);
  base::Result<bool> find_end(std::optional<std::uint64_t> readable);
  base::Result<State> step_back();
  base::Status check_position() const;
  void start_at(std::uint64_t position, std::int64_t skipped_lines);
  std::int64_t lines_of(const JournalRecord& record);
  bool is_wanted(const JournalHeader& header) const;
  void add(const JournalRecord& record, LogPage* page);

  const LogQuery query_;
  base::UniqueFd fd_;
  std::unique_ptr<JournalReader> ahead_;  // set once the start is known
  std::unique_ptr<JournalReader> back_;   // set while the start is being searched from the end
  std::unique_ptr<JournalReader> end_;    // set while the end of the last whole record is being searched
  std::int64_t counted_lines_ = 0;        // lines from the position of back_ to the end of the last whole record
  // Streams that have records from the position of back_ to the end of the last whole record.
  std::set<std::pair<std::uint32_t, proto::OutputStream>> seen_;
  std::int64_t skipped_lines_ = 0;  // lines of the first record to leave out
  bool has_read_ = false;
};

}  // namespace muster::launcherd::output
