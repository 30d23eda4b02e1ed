#include "launcherd/daemon/log_streams.h"

#include <chrono>
#include <utility>
#include <vector>

#include "model/placement.h"

namespace muster::launcherd::inline daemon {

LogStreams::~LogStreams() {
  for (const auto& [cursor, replies] : streams_) reader_->close(cursor);
}

Gone LogStreams::read(LogQuery query, Replies<v1::LogChunk> replies) {
  const std::uint64_t cursor = reader_->open(std::move(query));
  streams_.emplace(cursor, std::move(replies));
  next(cursor);
  return gate_.wrap([this, cursor] { finish(cursor, base::ok_status()); });
}

void LogStreams::next(std::uint64_t cursor) {
  reader_->next(cursor, [this, cursor](base::Result<LogPage> page) { got(cursor, std::move(page)); });
}

void LogStreams::got(std::uint64_t cursor, base::Result<LogPage> page) {
  const auto found = streams_.find(cursor);
  if (found == streams_.end()) return;
  if (!page.ok()) {
    finish(cursor, page.status());
    return;
  }
  const Replies<v1::LogChunk>& replies = found->second;
  for (v1::LogChunk& chunk : page->chunks) replies.send(std::move(chunk));
  if (page->is_end) {
    finish(cursor, base::ok_status());
    return;
  }
  replies.when_written(gate_.wrap([this, cursor] {
    if (streams_.contains(cursor)) next(cursor);
  }));
}

void LogStreams::finish(std::uint64_t cursor, const base::Status& status) {
  const auto found = streams_.find(cursor);
  if (found == streams_.end()) return;
  const Replies<v1::LogChunk> replies = std::move(found->second);
  streams_.erase(found);
  reader_->close(cursor);
  replies.done(status);
}

base::Result<LogQuery> log_query_of(const v1::LogsRequest& request) {
  LogQuery query;
  for (const int rank : request.ranks()) {
    if (rank < 0 || rank >= model::kMaxRanks) {
      return base::invalid_argument("ranks: {} is not a valid rank", rank);
    }
    query.ranks.insert(rank);
  }
  if (request.tail_lines() < 0) {
    return base::invalid_argument("tail_lines: {} is negative", request.tail_lines());
  }
  query.position = request.from_position();
  query.tail_lines = request.tail_lines();
  if (request.has_since()) {
    constexpr std::int64_t kYear2200 = 7'258'118'400;
    const auto& since = request.since();
    if (since.seconds() < 0 || since.seconds() > kYear2200 || since.nanos() < 0 || since.nanos() > 999'999'999) {
      return base::invalid_argument("since: the time must lie between 1970 and 2200");
    }
    query.since = base::WallTime(std::chrono::duration_cast<base::WallTime::duration>(
        std::chrono::seconds(since.seconds()) + std::chrono::nanoseconds(since.nanos())));
  }
  return query;
}

}  // namespace muster::launcherd::daemon
