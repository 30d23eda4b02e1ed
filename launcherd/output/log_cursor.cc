// LogCursor: find_start searches where to begin; read() and add() build pages from there.
// Read read() first, then find_start, then find_end and step_back.
#include "launcherd/output/log_cursor.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/strings.h"

namespace muster::launcherd::inline output {
namespace {

constexpr std::uint64_t kSliceBytes = 2 << 20;

google::protobuf::Timestamp timestamp_of(std::int64_t time_us) {
  google::protobuf::Timestamp time;
  std::int64_t seconds = time_us / 1'000'000;
  std::int64_t rest = time_us % 1'000'000;
  if (rest < 0) {
    rest += 1'000'000;
    --seconds;
  }
  time.set_seconds(seconds);
  time.set_nanos(static_cast<std::int32_t>(rest * 1000));
  return time;
}

// Returns `text` without its first `count` lines.
std::string_view without_lines(std::string_view text, std::int64_t count) {
  for (; count > 0; --count) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return {};
    text.remove_prefix(end + 1);
  }
  return text;
}

}  // namespace

// Returns false if the file does not exist yet.
base::Result<bool> LogCursor::open() {
  if (fd_.valid()) return true;
  fd_.reset(::open(query_.path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (fd_.valid()) return true;
  if (errno == ENOENT) return false;
  return base::errno_error(errno, "open " + query_.path);
}

base::Status LogCursor::check_position() const {
  struct stat about {};
  if (fstat(fd_.get(), &about) != 0) return base::errno_error(errno, "read " + query_.path);
  if (query_.position <= static_cast<std::uint64_t>(about.st_size)) return base::ok_status();
  return base::error(base::Code::kOutOfRange, "position {} lies beyond the end of the job's output, which has {} bytes",
                     query_.position, about.st_size);
}

void LogCursor::start_at(std::uint64_t position, std::int64_t skipped_lines) {
  ahead_ = std::make_unique<JournalReader>(fd_.get(), query_.path, position);
  skipped_lines_ = skipped_lines;
  back_.reset();
  seen_.clear();
}

bool LogCursor::is_wanted(const JournalHeader& header) const {
  switch (header.kind) {
    case JournalKind::kAttempt:
    case JournalKind::kEndAgent:
      return false;
    case JournalKind::kLost:
    case JournalKind::kGone:
      return true;
    case JournalKind::kData:
    case JournalKind::kEndRank:
      return query_.ranks.empty() || query_.ranks.count(static_cast<int>(header.rank)) != 0;
  }
  return false;
}

// Counts the lines of a record that is read backwards. An unfinished line counts in the record of its last piece.
std::int64_t LogCursor::lines_of(const JournalRecord& record) {
  if (record.header.kind != JournalKind::kData) return 0;
  const bool is_last = seen_.insert({record.header.rank, record.header.stream}).second;
  const bool is_open = is_last && record.payload.back() != '\n';
  return std::count(record.payload.begin(), record.payload.end(), '\n') + (is_open ? 1 : 0);
}

// Finds the end of the last whole record. If the file is being written, `readable` is that end. Otherwise searches for
// that end, because the last record may be incomplete. Returns false if the caller must call again.
base::Result<bool> LogCursor::find_end(std::optional<std::uint64_t> readable) {
  if (readable) {
    back_ = std::make_unique<JournalReader>(fd_.get(), query_.path, *readable);
    return true;
  }
  if (!end_) {
    struct stat about {};
    if (fstat(fd_.get(), &about) != 0) return base::errno_error(errno, "read " + query_.path);
    const auto size = static_cast<std::uint64_t>(about.st_size);
    if (JournalReader(fd_.get(), query_.path, size).previous().ok()) return find_end(size);
    end_ = std::make_unique<JournalReader>(fd_.get(), query_.path);
  }
  for (const std::uint64_t begin = end_->position(); end_->position() - begin < kSliceBytes;) {
    MUSTER_ASSIGN_OR_RETURN(const auto record, end_->next());
    if (!record) return find_end(std::exchange(end_, nullptr)->position());
  }
  return false;
}

// Goes back from the end by one slice, towards the first wanted record.
base::Result<LogCursor::State> LogCursor::step_back() {
  const std::uint64_t begin = back_->position();
  while (begin - back_->position() < kSliceBytes) {
    const std::uint64_t end = back_->position();
    MUSTER_ASSIGN_OR_RETURN(const auto record, back_->previous());
    if (!record) {
      start_at(0, 0);
      return State::kSlice;
    }
    const base::WallTime time{std::chrono::microseconds(record->header.time_us)};
    if (query_.since && time < *query_.since) {
      start_at(end, 0);
      return State::kSlice;
    }
    if (query_.tail_lines <= 0 || !is_wanted(record->header)) continue;
    const std::int64_t lines = lines_of(*record);
    counted_lines_ += lines;
    if (counted_lines_ < query_.tail_lines) continue;
    start_at(back_->position(), counted_lines_ - query_.tail_lines);
    return State::kSlice;
  }
  return State::kSlice;
}

base::Result<LogCursor::State> LogCursor::find_start(std::optional<std::uint64_t> readable) {
  if (query_.position != 0) {
    MUSTER_RETURN_IF_ERROR(check_position());
    start_at(query_.position, 0);
    return State::kSlice;
  }
  if (query_.tail_lines <= 0 && !query_.since) {
    start_at(0, 0);
    return State::kSlice;
  }
  if (!back_) {
    MUSTER_ASSIGN_OR_RETURN(const bool is_found, find_end(readable));
    if (!is_found) return State::kSlice;
  }
  return step_back();
}

void LogCursor::add(const JournalRecord& record, LogPage* page) {
  const JournalHeader& header = record.header;
  std::string_view text = header.kind == JournalKind::kData ? record.payload : std::string_view();
  text = without_lines(text, std::exchange(skipped_lines_, 0));
  if (header.kind == JournalKind::kData && text.empty()) return;
  v1::LogChunk& chunk = page->chunks.emplace_back();
  *chunk.mutable_time() = timestamp_of(header.time_us);
  chunk.set_next_position(ahead_->position());
  if (header.kind == JournalKind::kLost) {
    chunk.set_lost_bytes(decode_lost_bytes(record.payload));
    return;
  }
  if (header.kind == JournalKind::kGone) {
    chunk.set_lost_bytes(decode_lost_bytes(record.payload));
    chunk.set_lost_host(base::valid_utf8(decode_gone_host(record.payload)));
    return;
  }
  chunk.set_rank(static_cast<int>(header.rank));
  if (header.kind == JournalKind::kEndRank) {
    chunk.set_rank_ended(true);
    return;
  }
  chunk.set_stream(header.stream == proto::OutputStream::kStdout ? v1::OUTPUT_STREAM_KIND_STDOUT
                                                                 : v1::OUTPUT_STREAM_KIND_STDERR);
  chunk.set_data(text.data(), text.size());
  chunk.set_partial((header.flags & proto::kPartial) != 0);
  chunk.set_continuation((header.flags & proto::kContinuation) != 0 && text.size() == record.payload.size());
}

base::Result<LogCursor::State> LogCursor::read(std::optional<std::uint64_t> readable, LogPage* page) {
  MUSTER_ASSIGN_OR_RETURN(const bool is_there, open());
  if (!is_there) return State::kDry;
  if (!ahead_) return find_start(readable);
  std::size_t bytes = 0;
  State state = State::kSlice;
  const std::uint64_t begin = ahead_->position();
  while (bytes < kLogPage && ahead_->position() - begin < kSliceBytes) {
    const auto record = ahead_->next(readable.value_or(JournalReader::kNoLimit));
    if (!record.ok() && !has_read_ && query_.position != 0 && record.status().code() == base::Code::kDataLoss) {
      return base::invalid_argument("position {} is not the start of a record: use a position that a chunk has named",
                                    query_.position);
    }
    if (!record.ok() && page->chunks.empty()) return record.status();
    if (!record.ok()) break;  // return the chunks before the damage; the next read reports the error
    if (!record->has_value()) {
      state = State::kDry;
      break;
    }
    has_read_ = true;
    const base::WallTime time{std::chrono::microseconds((*record)->header.time_us)};
    if (!is_wanted((*record)->header) || (query_.since && time < *query_.since)) continue;
    bytes += (*record)->payload.size();
    add(**record, page);
  }
  page->next_position = ahead_->position();
  return page->chunks.empty() ? state : State::kPage;
}

}  // namespace muster::launcherd::output
