#include "cli/run/foreground_api.h"

#include <utility>

#include "launcherd/run/exec_stream.h"
#include "proto/hang_convert.h"

namespace muster::cli::inline run {
ForegroundApi::ForegroundApi(base::Loop& loop, const base::Environment& environment, const std::string& job_id,
                             launcherd::RestartingJob* job, launcherd::JobRecord* record)
    : job_(job), record_(record) {
  auto socket = launcherd::ApiSocket::open(launcherd::api_directories(environment), job_id);
  base::Status failed = socket.status();
  if (socket.ok()) {
    launcherd::ApiListeners listeners;
    listeners.sockets.push_back(std::move(*socket));
    auto server = launcherd::ApiServer::start(loop, std::move(listeners), this);
    failed = server.status();
    if (server.ok()) server_ = std::move(*server);
  }
  if (!failed.ok()) record_->on_note("muster jobs and stacks will not find this job: " + failed.message());
}

ForegroundApi::~ForegroundApi() = default;

void ForegroundApi::get_job(const v1::GetJobRequest& request, launcherd::Reply<v1::Job> reply) {
  reply(record_->job(request));
}

void ForegroundApi::kill(const v1::KillRequest& request, launcherd::Reply<v1::KillResponse> reply) {
  const bool is_first = !std::exchange(is_killed_, true);
  if (is_first) record_->on_warning("stopping all ranks, as muster kill asked");
  job_->stop(launcherd::StopCause::kTerminate);
  if (is_first && request.at_once()) job_->stop(launcherd::StopCause::kTerminate);
  reply(v1::KillResponse());
}

void ForegroundApi::signal(const v1::SignalRequest& request, launcherd::Reply<v1::SignalResponse> reply) {
  if (const base::Status refused = launcherd::check_signal(request.signal()); !refused.ok()) {
    reply(refused);
    return;
  }
  job_->signal_ranks(request.signal());
  reply(v1::SignalResponse());
}

launcherd::Gone ForegroundApi::watch(const v1::WatchRequest& request, launcherd::Replies<v1::Event> replies) {
  const auto watcher =
      record_->watch(request.from_sequence(), replies.send, [done = replies.done] { done(base::ok_status()); });
  if (!watcher.ok()) {
    replies.done(watcher.status());
    return {};
  }
  return [record = record_, number = *watcher] { record->unwatch(number); };
}

launcherd::Gone ForegroundApi::stacks(const v1::StacksRequest& request, launcherd::Replies<v1::ProcessStack> replies) {
  const launcherd::StackQuery query{.ranks = {request.ranks().begin(), request.ranks().end()},
                                    .is_native = request.native()};
  const base::Status asked =
      job_->stacks(query, std::move(replies.send), [done = replies.done] { done(base::ok_status()); });
  if (!asked.ok()) replies.done(asked);
  return {};
}

launcherd::Requests<v1::ExecRequest> ForegroundApi::exec(const v1::ExecRequest& first,
                                                         launcherd::Replies<v1::ExecEvent> replies) {
  const auto stream = launcherd::ExecStream::create(first, replies);
  if (!stream.ok()) {
    replies.done(stream.status());
    return {};
  }
  const base::Status begun = (*stream)->begin([this](const v1::ExecRequest& request, launcherd::ExecCaller caller) {
    return job_->exec(request, std::move(caller));
  });
  if (!begun.ok()) (*stream)->fail(begun);
  return (*stream)->controls();
}

void ForegroundApi::explain_hang(const v1::ExplainHangRequest&, launcherd::Reply<v1::HangReport> reply) {
  const base::Status asked =
      job_->explain_hang([reply](const model::HangReport& report) { reply(proto::to_proto(report)); });
  if (!asked.ok()) reply(asked);
}

}  // namespace muster::cli::run
