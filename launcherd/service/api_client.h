// Asks a launcher: launcherd, or the hvdrun of a foreground job.
//
// Every call blocks, for at most the patience that it is given; one thread at a time, but for cancel(). The first call
// connects, and so does the first one after a launcher that could not be reached (UNAVAILABLE). Errors are the
// launcher's own sentences, or say that and why it cannot be reached.
//
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

class ApiClient {
 public:
  using Patience = std::chrono::seconds;
  // False: no more of them, please; the call then ends well.
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
  base::Result<v1::ListHostsResponse> list_hosts(Patience patience);
  base::Result<v1::LauncherHost> drain_host(const v1::DrainHostRequest& request, Patience patience);
  base::Result<v1::LauncherHost> resume_host(const v1::ResumeHostRequest& request, Patience patience);
  base::Result<v1::Capabilities> capabilities(Patience patience);

  // Without a limit of time: until the launcher has said all.
  base::Status watch(const v1::WatchRequest& request, const OnAnswer<v1::Event>& on_event);
  base::Status logs(const v1::LogsRequest& request, const OnAnswer<v1::LogChunk>& on_chunk);
  base::Status cleanup(const v1::CleanupRequest& request, const OnAnswer<v1::CleanupReport>& on_report);
  base::Status stacks(const v1::StacksRequest& request, Patience patience,
                      const OnAnswer<v1::ProcessStack>& on_process);

  // Any thread: the call under way ends with CANCELLED, as does every later one.
  void cancel();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace muster::launcherd::service
