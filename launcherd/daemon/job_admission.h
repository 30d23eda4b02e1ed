// Accepts submitted jobs. A job must be able to run on the known hosts. The job is on the disk before the client gets
// the reply. For a repeated request_id the reply names the job of the first request.
//
// Owner: JobManager.
// Thread: loop thread only, construction and destruction too. If it is destroyed, requests on their way into the store
// get no reply.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/gate.h"
#include "base/ids.h"
#include "launcherd/queue/job_queue.h"
#include "launcherd/service/api_handler.h"
#include "launcherd/store/job_store.h"
#include "proto/job_spec_convert.h"
#include "proto/muster/v1/launcher.pb.h"

namespace muster::launcherd::inline daemon {

class JobAdmission {
 public:
  struct Admitted {
    base::JobId id;
    v1::SubmitRequest request;  // without the values of environment variables
    std::string user;           // who submitted it
    proto::Submission submission;
    JobNeed need;
    std::vector<model::JobDependency> after;  // jobs for which it waits
    base::WallTime submitted{};               // as it is stored
    std::string reason{};                     // why it waits at first
  };
  using OnAdmitted = std::function<void(Admitted)>;

  // `store` and `clock` are borrowed and must outlive this object. `more_may_join` is that of need_of().
  JobAdmission(JobStore* store, const base::Clock* clock, bool more_may_join)
      : store_(store), clock_(clock), more_may_join_(more_may_join) {}
  JobAdmission(const JobAdmission&) = delete;
  JobAdmission& operator=(const JobAdmission&) = delete;

  // Calls `on_admitted` for a new job when it is stored, before the reply.
  // INVALID_ARGUMENT and other errors of need_of(): the job can never run on `hosts`.
  // ALREADY_EXISTS: the request_id was used for a different request.
  // `after` has the jobs for which the job waits, each at most once.
  void submit(const v1::SubmitRequest& request, const std::string& user, const std::vector<SlotHost>& hosts,
              std::vector<model::JobDependency> after, OnAdmitted on_admitted, Reply<v1::SubmitResponse> reply);

 private:
  struct Candidate;  // a job on its way into the store

  base::Result<Candidate> check(const v1::SubmitRequest& request, const std::vector<SlotHost>& hosts) const;
  void store_new(std::shared_ptr<Candidate> candidate, Reply<v1::SubmitResponse> reply);
  void stored_new(const std::shared_ptr<Candidate>& candidate, const Reply<v1::SubmitResponse>& reply,
                  const base::Status& status);
  void answer_again(std::shared_ptr<Candidate> candidate, Reply<v1::SubmitResponse> reply);

  JobStore* const store_;
  const base::Clock* const clock_;
  const bool more_may_join_;
  base::Gate gate_;
};

}  // namespace muster::launcherd::daemon
