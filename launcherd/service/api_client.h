// ApiClient calls a launcher: launcherd, or the hvdrun of a foreground job.
//
// Thread: one at a time, except for cancel(). Every call blocks, at most for its `patience`. The first call connects.
// If the launcher was UNAVAILABLE, the next call connects again.
// Errors: the launcher's own sentences, or a sentence that says why the launcher cannot be reached.
//
// Example:
//   ApiClient client(foreground_address(path));
//   MUSTER_ASSIGN_OR_RETURN(const v1::Job job, client.get_job({}, 20s));
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "base/status.h"
#include "launcherd/service/launcher_address.h"
#include "proto/muster/v1/launcher.pb.h"

namespace muster::launcherd::inline service {

// A command that runs beside a rank (Exec).
// Thread: one thread may write while another one reads. cancel() may be called from any thread.
class ExecCall {
 public:
  struct State;
  explicit ExecCall(std::unique_ptr<State> state);
  ~ExecCall();  // cancels the call if it has not finished
  ExecCall(const ExecCall&) = delete;
  ExecCall& operator=(const ExecCall&) = delete;

  // Both return false once the call is over. Then finish() returns how it ended.
  bool write(const v1::ExecRequest& request);
  bool read(v1::ExecEvent& event);
  // Call it once, after read() has returned false.
  base::Status finish();
  void cancel();

 private:
  std::unique_ptr<State> state_;
};

class ApiClient {
 public:
  using Patience = std::chrono::milliseconds;
  // The function returns false to stop. The call then ends with OK.
  template <typename Answer>
  using OnAnswer = std::function<bool(const Answer&)>;

  explicit ApiClient(LauncherAddress address);
  ~ApiClient();
  ApiClient(ApiClient&&) noexcept;

  base::Result<v1::SubmitResponse> submit(const v1::SubmitRequest& request, Patience patience);
  base::Result<v1::Job> get_job(const v1::GetJobRequest& request, Patience patience);
  base::Result<v1::ListJobsResponse> list_jobs(const v1::ListJobsRequest& request, Patience patience);
  base::Status kill(const v1::KillRequest& request, Patience patience);
  base::Status signal(const v1::SignalRequest& request, Patience patience);
  base::Result<v1::ListElementsResponse> list_elements(const v1::ListElementsRequest& request, Patience patience);
  base::Status update_job(const v1::UpdateJobRequest& request, Patience patience);
  base::Status hold(const v1::HoldRequest& request, Patience patience);
  base::Status release(const v1::ReleaseRequest& request, Patience patience);
  base::Result<v1::SubmitResponse> rerun(const v1::RerunRequest& request, Patience patience);
  base::Result<v1::ResizeResponse> resize(const v1::ResizeRequest& request, Patience patience);
  base::Result<v1::ListHostsResponse> list_hosts(Patience patience);
  base::Result<v1::HistoryResponse> history(const v1::HistoryRequest& request, Patience patience);
  base::Result<v1::LauncherHost> drain_host(const v1::DrainHostRequest& request, Patience patience);
  base::Result<v1::LauncherHost> resume_host(const v1::ResumeHostRequest& request, Patience patience);
  base::Result<v1::HangReport> explain_hang(const v1::ExplainHangRequest& request, Patience patience);
  base::Result<v1::Capabilities> capabilities(Patience patience);

  // watch() and the next two calls have no time limit. Each call returns once the launcher has sent everything.
  base::Status watch(const v1::WatchRequest& request, const OnAnswer<v1::Event>& on_event);
  base::Status logs(const v1::LogsRequest& request, const OnAnswer<v1::LogChunk>& on_chunk);
  base::Status cleanup(const v1::CleanupRequest& request, const OnAnswer<v1::CleanupReport>& on_report);
  base::Status stacks(const v1::StacksRequest& request, Patience patience,
                      const OnAnswer<v1::ProcessStack>& on_process);

  // The client must outlive the call. No time limit.
  base::Result<std::unique_ptr<ExecCall>> exec(const v1::ExecRequest& first);

  // Any thread. The current call and all later calls end with CANCELLED.
  void cancel();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace muster::launcherd::service
