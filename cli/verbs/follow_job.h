// Follows what a launcher says of a job to the job's end: its events, its output. A launcherd that is started again
// meanwhile is asked again from where it has stopped. Blocks; one thread at a time.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/status.h"
#include "cli/verbs/found_jobs.h"
#include "launcherd/service/api_client.h"

namespace muster::cli::inline verbs {

// How a job has ended, as far as its launcher could be asked.
struct EndedJob {
  int exit_code = 0;
  v1::ExitReport report;  // without ends where nothing was started
  int hosts = 0;          // that had ranks
  v1::Job job;            // of launcherd's
};

// Waits for a launcherd that has gone to come back, for as long as jobs go on without it.
class Reconnecting {
 public:
  // `on_trouble` gets one line when it has gone. `cancel_fd`: readable when nobody wants it back any more; -1: never.
  Reconnecting(std::function<void(const std::string&)> on_trouble, int cancel_fd)
      : on_trouble_(std::move(on_trouble)), cancel_fd_(cancel_fd) {}

  // Whether to ask again after this failure; takes a moment then.
  bool again_blocking(const FoundJob& job, const base::Status& failure);
  // It answers.
  void is_there() { attempts_ = 0; }

 private:
  const std::function<void(const std::string&)> on_trouble_;
  const int cancel_fd_;
  int attempts_ = 0;
};

// Every event from `from_sequence` on, then the end. `on_event` false: enough; the result is then nullopt.
base::Result<std::optional<EndedJob>> watch_to_end(launcherd::ApiClient& client, const FoundJob& job,
                                                   std::uint64_t from_sequence, Reconnecting& reconnecting,
                                                   const std::function<bool(const v1::Event&)>& on_event);

// What the request asks for. Its position moves along.
base::Status read_logs(launcherd::ApiClient& client, const FoundJob& job, v1::LogsRequest request,
                       Reconnecting& reconnecting, const std::function<bool(const v1::LogChunk&)>& on_chunk);

}  // namespace muster::cli::verbs
