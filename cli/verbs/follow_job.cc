#include "cli/verbs/follow_job.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <iterator>

#include "cli/view/rank_console.h"

namespace muster::cli::inline verbs {
namespace {

constexpr std::chrono::milliseconds kPause{500};
constexpr int kAttempts = 1200;  // 10 min of kPause: the default lease of a held job; a submitter may choose another

bool is_final(v1::JobState state) {
  return state == v1::JOB_STATE_SUCCEEDED || state == v1::JOB_STATE_FAILED || state == v1::JOB_STATE_KILLED ||
         state == v1::JOB_STATE_LOST;
}

// Returns the state of a job that ended with this code, as far as the code tells.
v1::JobState state_of_code(int code) {
  constexpr int kBySomeone[] = {124, 129, 130, 143};  // its time limit, SIGHUP, SIGINT, SIGTERM
  if (code == 0) return v1::JOB_STATE_SUCCEEDED;
  return std::ranges::find(kBySomeone, code) != std::end(kBySomeone) ? v1::JOB_STATE_KILLED : v1::JOB_STATE_FAILED;
}

}  // namespace

v1::Job job_at_end(v1::Job before, const EndedJob& ended, base::WallTime now) {
  if (!ended.job.id().empty()) return ended.job;
  before.set_state(state_of_code(ended.exit_code));
  before.set_exit_code(ended.exit_code);
  before.mutable_ended()->set_seconds(std::chrono::system_clock::to_time_t(now));
  return before;
}

bool Reconnecting::again_blocking(const FoundJob& job, const base::Status& failure) {
  if (job.launcher.is_foreground_job || failure.code() != base::Code::kUnavailable) return false;
  if (attempts_ == 0) on_trouble_("launcherd does not answer; the job goes on, and so does this when it is back");
  if (++attempts_ > kAttempts) return false;
  pollfd wanted{cancel_fd_, POLLIN, 0};
  return ::poll(&wanted, 1, static_cast<int>(kPause.count())) == 0;
}

base::Result<std::optional<EndedJob>> watch_to_end(launcherd::ApiClient& client, const FoundJob& job,
                                                   std::uint64_t from_sequence, Reconnecting& reconnecting,
                                                   const std::function<bool(const v1::Event&)>& on_event) {
  EndedJob ended;
  bool has_report = false;
  bool has_enough = false;
  v1::WatchRequest request;
  request.set_job(job.name_there());
  request.set_from_sequence(from_sequence);
  const auto take = [&](const v1::Event& event) {
    reconnecting.is_there();
    request.set_from_sequence(event.sequence() + 1);
    if (event.has_job_starting()) ended.hosts = event.job_starting().placement().hosts_size();
    if (event.has_job_ended()) {
      has_report = true;
      ended.report = event.job_ended();
      ended.exit_code = event.job_ended().exit_code();
    }
    has_enough = !on_event(event);
    return !has_enough;
  };
  while (true) {
    base::Status status = client.watch(request, take);
    if (has_enough) return std::optional<EndedJob>();
    if (has_report && job.launcher.is_foreground_job) return std::optional(std::move(ended));
    if (status.ok()) {
      auto now = ask_job(client, job, kNoRanks);
      if (now.ok() && is_final(now->state())) {
        ended.exit_code = now->exit_code();
        ended.job = std::move(*now);
        return std::optional(std::move(ended));
      }
      status = now.ok() ? base::Status(base::Code::kUnavailable, "it leaves") : now.status();
    }
    if (!reconnecting.again_blocking(job, status)) return status;
  }
}

base::Status read_logs(launcherd::ApiClient& client, const FoundJob& job, v1::LogsRequest request,
                       Reconnecting& reconnecting, const std::function<bool(const v1::LogChunk&)>& on_chunk) {
  request.set_job(job.name_there());
  while (true) {
    const base::Status status = client.logs(request, [&](const v1::LogChunk& chunk) {
      reconnecting.is_there();
      request.set_from_position(chunk.next_position());
      return on_chunk(chunk);
    });
    if (status.ok() || !reconnecting.again_blocking(job, status)) return status;
  }
}

std::vector<int> ranks_of_logs(launcherd::ApiClient& client, const FoundJob& job, const v1::LogsRequest& request) {
  if (request.ranks_size() > 0) return {request.ranks().begin(), request.ranks().end()};
  const auto now = ask_job(client, job, kNoRanks);
  return now.ok() ? first_ranks(now->size()) : std::vector<int>();
}

}  // namespace muster::cli::verbs
