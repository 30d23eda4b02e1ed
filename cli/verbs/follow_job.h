// Follows the events and the output of a job until its end. After a restart of launcherd, it continues from the last
// position.
// Thread: blocks; one thread at a time.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "cli/verbs/found_jobs.h"
#include "launcherd/service/api_client.h"

namespace muster::cli::inline verbs {

// The end of a job, as far as its launcher could be asked.
struct EndedJob {
  int exit_code = 0;
  v1::ExitReport report;  // has no ends if nothing was started
  int hosts = 0;          // number of hosts that had ranks
  v1::Job job;            // set only for jobs of launcherd
};

// Returns the job as it is after its end. `before` is what its launcher told of it earlier; a foreground hvdrun is gone
// after the end, so the state then follows from the exit code.
v1::Job job_at_end(v1::Job before, const EndedJob& ended, base::WallTime now);

// Waits for a launcherd that does not answer, for as long as a job of the default lease goes on without launcherd.
class Reconnecting {
 public:
  // `on_trouble` gets one line when launcherd stops answering. `cancel_fd` becomes readable if the caller no longer
  // wants to wait; -1 if it never does.
  Reconnecting(std::function<void(const std::string&)> on_trouble, int cancel_fd)
      : on_trouble_(std::move(on_trouble)), cancel_fd_(cancel_fd) {}

  // True if the caller must ask again after this failure. Then it blocks for a pause of 500 ms (kPause) first.
  bool again_blocking(const FoundJob& job, const base::Status& failure);
  // Call it for each answer of launcherd.
  void is_there() { attempts_ = 0; }

 private:
  const std::function<void(const std::string&)> on_trouble_;
  const int cancel_fd_;
  int attempts_ = 0;
};

// Passes every event from `from_sequence` on to `on_event`, then returns the end of the job. If `on_event` returns
// false, watching stops and the result is nullopt.
base::Result<std::optional<EndedJob>> watch_to_end(launcherd::ApiClient& client, const FoundJob& job,
                                                   std::uint64_t from_sequence, Reconnecting& reconnecting,
                                                   const std::function<bool(const v1::Event&)>& on_event);

// Reads the output that the request asks for, until `on_chunk` returns false. After a reconnect it continues behind the
// last chunk.
base::Status read_logs(launcherd::ApiClient& client, const FoundJob& job, v1::LogsRequest request,
                       Reconnecting& reconnecting, const std::function<bool(const v1::LogChunk&)>& on_chunk);

// Returns the ranks whose output the request asks for. Empty if the launcher does not tell.
std::vector<int> ranks_of_logs(launcherd::ApiClient& client, const FoundJob& job, const v1::LogsRequest& request);

}  // namespace muster::cli::verbs
