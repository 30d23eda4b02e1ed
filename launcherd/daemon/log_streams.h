// Streams the output of jobs to clients. Each client has a cursor of the LogReader. A client gets its next page when
// the transport has sent the page before.
//
// Owner: Daemon.
// Thread: loop thread only.
#pragma once

#include <cstdint>
#include <map>

#include "base/gate.h"
#include "launcherd/output/log_reader.h"
#include "launcherd/service/api_handler.h"

namespace muster::launcherd::inline daemon {

class LogStreams {
 public:
  // `reader` is borrowed and must outlive this object.
  explicit LogStreams(LogReader* reader) : reader_(reader) {}
  ~LogStreams();

  Gone read(LogQuery query, Replies<v1::LogChunk> replies);

 private:
  void next(std::uint64_t cursor);
  void got(std::uint64_t cursor, base::Result<LogPage> page);
  void finish(std::uint64_t cursor, const base::Status& status);

  LogReader* const reader_;
  std::map<std::uint64_t, Replies<v1::LogChunk>> streams_;  // by cursor
  base::Gate gate_;
};

// INVALID_ARGUMENT: a field is invalid; the message names it. The caller sets `follow`, because it knows whether the
// job has ended.
base::Result<LogQuery> log_query_of(const v1::LogsRequest& request);

}  // namespace muster::launcherd::daemon
