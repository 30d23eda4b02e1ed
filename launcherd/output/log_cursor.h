// One reader's way through the journal of a job: where it begins, what it wants, and the next page of it.
//
// Blocking reads of the page cache, in slices, so that one thread can serve many. One thread at a time.
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
  std::set<int> ranks = {};                  // empty: all
  std::uint64_t position = 0;                // LogChunk.next_position of an earlier page; 0: from the beginning
  std::optional<base::WallTime> since = {};  // nothing that came before
  std::int64_t tail_lines = 0;  // only about so many last lines of what is there; 0, or with `position`: all
  bool follow = false;          // LogReader's: what comes later as well
};

struct LogPage {
  std::vector<v1::LogChunk> chunks;  // kLogPage bytes of data, and what its last chunk has more (1 MiB)
  std::uint64_t next_position = 0;
  bool is_end = false;  // nothing will come any more
};

inline constexpr std::size_t kLogPage = 256 * 1024;

class LogCursor {
 public:
  explicit LogCursor(LogQuery query) : query_(std::move(query)) {}

  enum class State {
    kPage,   // chunks are in the page
    kSlice,  // enough work for one turn: ask again
    kDry,    // there is no more before `readable`, or before the end of the file
  };

  // `readable`: to which byte a file may be read that is still written; nullopt: nobody writes it.
  // Errors: INVALID_ARGUMENT and OUT_OF_RANGE (the position is none that a page has named), DATA_LOSS (with the path
  // and the offset), and those of open and read. The cursor is of no use then.
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
  std::unique_ptr<JournalReader> ahead_;  // once it is known where to begin
  std::unique_ptr<JournalReader> back_;   // while that is looked for, from the end
  std::unique_ptr<JournalReader> end_;    // while the end of the last whole record is looked for
  std::int64_t counted_lines_ = 0;        // behind back_
  std::set<std::pair<std::uint32_t, proto::OutputStream>> seen_;  // streams that have records behind back_
  std::int64_t skipped_lines_ = 0;                                // of the first record
  bool has_read_ = false;
};

}  // namespace muster::launcherd::output
