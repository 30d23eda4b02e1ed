// Answers the calls that launcherd receives on its sockets (proto/muster/v1/launcher.proto).
//
// Owner: Daemon.
// Thread: loop thread only.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/gate.h"
#include "launcherd/cleanup/host_cleanups.h"
#include "launcherd/daemon/array_view.h"
#include "launcherd/daemon/job_catalog.h"
#include "launcherd/daemon/job_manager.h"
#include "launcherd/daemon/load_history.h"
#include "launcherd/daemon/log_streams.h"
#include "launcherd/daemon/watch_streams.h"
#include "launcherd/service/api_handler.h"

namespace muster::launcherd::inline daemon {

class DaemonApi final : public ApiHandler {
 public:
  struct Parts {
    base::Loop* loop = nullptr;
    JobStore* store = nullptr;
    JobManager* jobs = nullptr;
    WatchStreams* watches = nullptr;
    LogStreams* logs = nullptr;
    const LoadHistory* history = nullptr;
    const base::Clock* clock = nullptr;
    BootstrapOptions bootstrap;  // for Cleanup
    std::string session_root;    // MUSTER_TMPDIR; empty means each host's own default
    v1::Capabilities capabilities;
  };
  // The objects that `parts` points to are borrowed and must outlive this object.
  explicit DaemonApi(Parts parts);
  ~DaemonApi() override;

  void submit(const v1::SubmitRequest& request, const std::string& user, Reply<v1::SubmitResponse> reply) override;
  void get_job(const v1::GetJobRequest& request, Reply<v1::Job> reply) override;
  void list_jobs(const v1::ListJobsRequest& request, Reply<v1::ListJobsResponse> reply) override;
  void list_elements(const v1::ListElementsRequest& request, Reply<v1::ListElementsResponse> reply) override;
  Gone watch(const v1::WatchRequest& request, Replies<v1::Event> replies) override;
  Gone logs(const v1::LogsRequest& request, Replies<v1::LogChunk> replies) override;
  void kill(const v1::KillRequest& request, Reply<v1::KillResponse> reply) override;
  void signal(const v1::SignalRequest& request, Reply<v1::SignalResponse> reply) override;
  void hold(const v1::HoldRequest& request, const std::string& user, Reply<v1::HoldResponse> reply) override;
  void release(const v1::ReleaseRequest& request, Reply<v1::ReleaseResponse> reply) override;
  void update_job(const v1::UpdateJobRequest& request, const std::string& user,
                  Reply<v1::UpdateJobResponse> reply) override;
  void rerun(const v1::RerunRequest& request, const std::string& user, Reply<v1::SubmitResponse> reply) override;
  void resize(const v1::ResizeRequest& request, Reply<v1::ResizeResponse> reply) override;
  void explain_hang(const v1::ExplainHangRequest& request, Reply<v1::HangReport> reply) override;
  Gone stacks(const v1::StacksRequest& request, Replies<v1::ProcessStack> replies) override;
  Requests<v1::ExecRequest> exec(const v1::ExecRequest& first, Replies<v1::ExecEvent> replies) override;
  void history(const v1::HistoryRequest& request, Reply<v1::HistoryResponse> reply) override;
  void get_spec(const std::string& job, Reply<v1::JobSpec> reply) override;
  Gone cleanup(const v1::CleanupRequest& request, Replies<v1::CleanupReport> replies) override;
  void list_hosts(const v1::ListHostsRequest& request, Reply<v1::ListHostsResponse> reply) override;
  JobCounters counters() const override { return parts_.jobs->counters(); }
  void drain_host(const v1::DrainHostRequest& request, Reply<v1::LauncherHost> reply) override;
  void resume_host(const v1::ResumeHostRequest& request, Reply<v1::LauncherHost> reply) override;
  void get_capabilities(const v1::GetCapabilitiesRequest& request, Reply<v1::Capabilities> reply) override;

 private:
  struct RunningCleanup;
  using Resolved = std::function<void(base::Result<base::JobId>)>;

  using Resolve = void (DaemonApi::*)(const std::string& job, Resolved resolved);

  // Finds a job by its id, or by a prefix that begins no other id, or an element of an array. It may have ended.
  void find(const std::string& job, std::function<void(base::Result<NamedJob>)> found);
  // The same for calls that need a job of the store. FAILED_PRECONDITION: an element that has not started.
  void resolve(const std::string& job, Resolved resolved);
  // FAILED_PRECONDITION: an element.
  void resolve_whole(const std::string& job, Resolved resolved);
  // FAILED_PRECONDITION: a whole array.
  void resolve_single(const std::string& job, Resolved resolved);
  // Explains why a call has no effect on a job that is not open.
  void refuse_ended(const base::JobId& id, std::function<void(base::Status)> refuse);
  template <typename Answer>
  Gone stream_of(Resolve look_up, const std::string& job, Replies<Answer> replies,
                 std::function<Gone(const base::JobId&, Replies<Answer>)> begin);
  base::Result<CleanupPlan> plan_of(const v1::CleanupRequest& request) const;

  const Parts parts_;
  const std::shared_ptr<JobCatalog> catalog_ = std::make_shared<JobCatalog>();  // for the store's reading thread
  std::map<std::uint64_t, std::unique_ptr<RunningCleanup>> cleanups_;
  std::uint64_t next_cleanup_ = 1;
  base::Gate gate_;
};

}  // namespace muster::launcherd::daemon
