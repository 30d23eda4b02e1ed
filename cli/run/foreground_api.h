// Answers requests on the socket of a foreground job's launcher (proto/muster/v1/launcher.proto).
// Thread: loop thread only.
#pragma once

#include <memory>
#include <string>

#include "base/env.h"
#include "base/loop.h"
#include "launcherd/run/job_record.h"
#include "launcherd/run/restarting_job.h"
#include "launcherd/service/api_server.h"

namespace muster::cli::inline run {

class ForegroundApi final : private launcherd::ApiHandler {
 public:
  // Borrows `job` and `record`. If the socket cannot be made, the job runs all the same, but no other program can find
  // it. `record` then gets a note.
  ForegroundApi(base::Loop& loop, const base::Environment& environment, const std::string& job_id,
                launcherd::RestartingJob* job, launcherd::JobRecord* record);
  ~ForegroundApi() override;

 private:
  void get_job(const v1::GetJobRequest& request, launcherd::Reply<v1::Job> reply) override;
  void kill(const v1::KillRequest& request, launcherd::Reply<v1::KillResponse> reply) override;
  void signal(const v1::SignalRequest& request, launcherd::Reply<v1::SignalResponse> reply) override;
  launcherd::Gone watch(const v1::WatchRequest& request, launcherd::Replies<v1::Event> replies) override;
  void explain_hang(const v1::ExplainHangRequest& request, launcherd::Reply<v1::HangReport> reply) override;
  launcherd::Requests<v1::ExecRequest> exec(const v1::ExecRequest& first,
                                            launcherd::Replies<v1::ExecEvent> replies) override;
  launcherd::Gone stacks(const v1::StacksRequest& request, launcherd::Replies<v1::ProcessStack> replies) override;

  launcherd::RestartingJob* const job_;
  launcherd::JobRecord* const record_;
  bool is_killed_ = false;
  std::unique_ptr<launcherd::ApiServer> server_;
};

}  // namespace muster::cli::run
