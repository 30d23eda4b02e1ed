// ApiHandler implements the calls of launcher.proto, one function per call. launcherd and hvdrun each have their own
// implementation. The default of each function replies UNIMPLEMENTED.
//
// Thread: the loop thread only. Call each Reply and each Replies::done exactly once on the loop thread, during the call
// or later.
#pragma once

#include <functional>
#include <string>

#include "base/loop.h"
#include "base/status.h"
#include "launcherd/service/job_counters.h"
#include "proto/muster/v1/launcher.pb.h"

namespace muster::launcherd::inline service {

template <typename Answer>
using Reply = std::function<void(base::Result<Answer>)>;

// Sends several replies and then the end. The functions have no effect once the caller has left.
template <typename Answer>
struct Replies {
  std::function<void(Answer)> send;
  std::function<void(const base::Status&)> done;
  // Calls `task` once on the loop, when everything sent so far is written. Send more only then, so that a caller that
  // does not read costs no memory. Never calls `task` if the caller has left.
  std::function<void(base::Loop::Task)> when_written;
};

// Called once if the caller leaves before `done`. May be empty.
using Gone = std::function<void()>;

// Receives what follows the first request of a stream of requests. If the caller must be able to end its input, give it
// a field of the request for that: the end of the requests may also be the caller's death.
template <typename Request>
struct Requests {
  std::function<void(const Request&)> next;
  Gone gone;
};

class ApiHandler {
 public:
  virtual ~ApiHandler() = default;
  // `user` is the caller: the name in its certificate, or launcherd's own user. It may be empty.
  virtual void submit(const v1::SubmitRequest& request, const std::string& user, Reply<v1::SubmitResponse> reply);
  virtual void get_job(const v1::GetJobRequest& request, Reply<v1::Job> reply);
  virtual void list_jobs(const v1::ListJobsRequest& request, Reply<v1::ListJobsResponse> reply);
  virtual void list_elements(const v1::ListElementsRequest& request, Reply<v1::ListElementsResponse> reply);
  virtual Gone watch(const v1::WatchRequest& request, Replies<v1::Event> replies);
  virtual Gone logs(const v1::LogsRequest& request, Replies<v1::LogChunk> replies);
  virtual void kill(const v1::KillRequest& request, Reply<v1::KillResponse> reply);
  virtual void signal(const v1::SignalRequest& request, Reply<v1::SignalResponse> reply);
  virtual void hold(const v1::HoldRequest& request, const std::string& user, Reply<v1::HoldResponse> reply);
  virtual void release(const v1::ReleaseRequest& request, Reply<v1::ReleaseResponse> reply);
  virtual void update_job(const v1::UpdateJobRequest& request, const std::string& user,
                          Reply<v1::UpdateJobResponse> reply);
  virtual void rerun(const v1::RerunRequest& request, const std::string& user, Reply<v1::SubmitResponse> reply);
  virtual void resize(const v1::ResizeRequest& request, Reply<v1::ResizeResponse> reply);
  virtual Gone stacks(const v1::StacksRequest& request, Replies<v1::ProcessStack> replies);
  virtual Requests<v1::ExecRequest> exec(const v1::ExecRequest& first, Replies<v1::ExecEvent> replies);
  virtual void explain_hang(const v1::ExplainHangRequest& request, Reply<v1::HangReport> reply);
  virtual void history(const v1::HistoryRequest& request, Reply<v1::HistoryResponse> reply);
  // Not a call of launcher.proto: only the web page asks for the spec of a job.
  virtual void get_spec(const std::string& job, Reply<v1::JobSpec> reply);
  virtual Gone cleanup(const v1::CleanupRequest& request, Replies<v1::CleanupReport> replies);
  virtual void list_hosts(const v1::ListHostsRequest& request, Reply<v1::ListHostsResponse> reply);
  virtual void drain_host(const v1::DrainHostRequest& request, Reply<v1::LauncherHost> reply);
  virtual void resume_host(const v1::ResumeHostRequest& request, Reply<v1::LauncherHost> reply);
  virtual void get_capabilities(const v1::GetCapabilitiesRequest& request, Reply<v1::Capabilities> reply);
  virtual JobCounters counters() const { return {}; }
};

}  // namespace muster::launcherd::service
