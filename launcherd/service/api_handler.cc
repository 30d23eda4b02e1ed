#include "launcherd/service/api_handler.h"

namespace muster::launcherd::inline service {
namespace {

base::Status not_served(std::string_view call) {
  return base::unimplemented(
      "this launcher does not serve {}: only launcherd does; a foreground hvdrun serves its own job", call);
}

}  // namespace

void ApiHandler::submit(const v1::SubmitRequest&, const std::string&, Reply<v1::SubmitResponse> reply) {
  reply(not_served("Submit"));
}
void ApiHandler::get_job(const v1::GetJobRequest&, Reply<v1::Job> reply) {
  reply(not_served("GetJob"));
}
void ApiHandler::list_jobs(const v1::ListJobsRequest&, Reply<v1::ListJobsResponse> reply) {
  reply(not_served("ListJobs"));
}
void ApiHandler::list_elements(const v1::ListElementsRequest&, Reply<v1::ListElementsResponse> reply) {
  reply(not_served("ListElements"));
}
Gone ApiHandler::watch(const v1::WatchRequest&, Replies<v1::Event> replies) {
  replies.done(not_served("Watch"));
  return {};
}
Gone ApiHandler::logs(const v1::LogsRequest&, Replies<v1::LogChunk> replies) {
  replies.done(not_served("Logs"));
  return {};
}
void ApiHandler::kill(const v1::KillRequest&, Reply<v1::KillResponse> reply) {
  reply(not_served("Kill"));
}
void ApiHandler::signal(const v1::SignalRequest&, Reply<v1::SignalResponse> reply) {
  reply(not_served("Signal"));
}
void ApiHandler::hold(const v1::HoldRequest&, const std::string&, Reply<v1::HoldResponse> reply) {
  reply(not_served("Hold"));
}
void ApiHandler::release(const v1::ReleaseRequest&, Reply<v1::ReleaseResponse> reply) {
  reply(not_served("Release"));
}
void ApiHandler::update_job(const v1::UpdateJobRequest&, const std::string&, Reply<v1::UpdateJobResponse> reply) {
  reply(not_served("UpdateJob"));
}
void ApiHandler::rerun(const v1::RerunRequest&, const std::string&, Reply<v1::SubmitResponse> reply) {
  reply(not_served("Rerun"));
}
void ApiHandler::resize(const v1::ResizeRequest&, Reply<v1::ResizeResponse> reply) {
  reply(not_served("Resize"));
}
Gone ApiHandler::stacks(const v1::StacksRequest&, Replies<v1::ProcessStack> replies) {
  replies.done(not_served("Stacks"));
  return {};
}
Requests<v1::ExecRequest> ApiHandler::exec(const v1::ExecRequest&, Replies<v1::ExecEvent> replies) {
  replies.done(not_served("Exec"));
  return {};
}
void ApiHandler::explain_hang(const v1::ExplainHangRequest&, Reply<v1::HangReport> reply) {
  reply(not_served("ExplainHang"));
}
void ApiHandler::history(const v1::HistoryRequest&, Reply<v1::HistoryResponse> reply) {
  reply(not_served("History"));
}
void ApiHandler::get_spec(const std::string&, Reply<v1::JobSpec> reply) {
  reply(not_served("the spec of a job"));
}
Gone ApiHandler::cleanup(const v1::CleanupRequest&, Replies<v1::CleanupReport> replies) {
  replies.done(not_served("Cleanup"));
  return {};
}
void ApiHandler::list_hosts(const v1::ListHostsRequest&, Reply<v1::ListHostsResponse> reply) {
  reply(not_served("ListHosts"));
}
void ApiHandler::drain_host(const v1::DrainHostRequest&, Reply<v1::LauncherHost> reply) {
  reply(not_served("DrainHost"));
}
void ApiHandler::resume_host(const v1::ResumeHostRequest&, Reply<v1::LauncherHost> reply) {
  reply(not_served("ResumeHost"));
}
void ApiHandler::get_capabilities(const v1::GetCapabilitiesRequest&, Reply<v1::Capabilities> reply) {
  reply(not_served("GetCapabilities"));
}

}  // namespace muster::launcherd::service
