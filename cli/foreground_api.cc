#include "cli/foreground_api.h"

#include <csignal>
#include <utility>

#include "base/strings.h"

namespace muster::cli {
namespace {

constexpr int kHighestSignal = 64;

}  // namespace

ForegroundApi::ForegroundApi(base::Loop& loop, const base::Environment& environment, const std::string& job_id,
                             launcherd::RestartingJob* job, launcherd::JobRecord* record)
    : job_(job), record_(record) {
  auto socket = launcherd::ApiSocket::open(launcherd::api_directories(environment), job_id);
  if (socket.ok()) {
    server_ = launcherd::ApiServer::start(loop, std::move(*socket), this);
  } else {
    record_->on_note("muster jobs and stacks will not find this job: " + socket.status().message());
  }
}

ForegroundApi::~ForegroundApi() = default;

base::Result<v1::Job> ForegroundApi::get_job(const v1::GetJobRequest& request) {
  return record_->job(request);
}

base::Status ForegroundApi::kill(const v1::KillRequest& request) {
  const bool is_first = !std::exchange(is_killed_, true);
  if (is_first) record_->on_warning("stopping all ranks, as muster kill asked");
  job_->stop(launcherd::StopCause::kTerminate);
  if (is_first && request.at_once()) job_->stop(launcherd::StopCause::kTerminate);
  return base::ok_status();
}

base::Status ForegroundApi::signal(const v1::SignalRequest& request) {
  const int signo = request.signal();
  if (signo < 1 || signo > kHighestSignal) {
    return base::error(base::Code::kInvalidArgument, "there is no signal {}: 1 to {}", signo, kHighestSignal);
  }
  if (signo == SIGKILL) {
    return base::error(base::Code::kInvalidArgument, "SIGKILL ends the job: kill it instead");
  }
  job_->signal_ranks(signo);
  return base::ok_status();
}

std::function<void()> ForegroundApi::watch(const v1::WatchRequest& request, launcherd::Replies<v1::Event> replies) {
  const auto watcher =
      record_->watch(request.from_sequence(), replies.send, [done = replies.done] { done(base::ok_status()); });
  if (!watcher.ok()) {
    replies.done(watcher.status());
    return {};
  }
  return [record = record_, number = *watcher] { record->unwatch(number); };
}

void ForegroundApi::stacks(const v1::StacksRequest& request, launcherd::Replies<v1::ProcessStack> replies) {
  const std::vector<int> ranks(request.ranks().begin(), request.ranks().end());
  const base::Status asked =
      job_->stacks(ranks, std::move(replies.send), [done = replies.done] { done(base::ok_status()); });
  if (!asked.ok()) replies.done(asked);
}

}  // namespace muster::cli
