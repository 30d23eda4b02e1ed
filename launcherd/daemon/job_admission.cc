// The whole of JobAdmission.
// Read it in this order: submit, check, store_new, stored_new, answer_again.
#include "launcherd/daemon/job_admission.h"

#include <algorithm>
#include <string>
#include <utility>

#include "launcherd/daemon/job_view.h"
#include "launcherd/daemon/recovery.h"
#include "launcherd/queue/fit.h"
#include "launcherd/queue/job_need.h"
#include "model/job_placement.h"
#include "proto/muster/v1/stored.pb.h"
#include "proto/stored_event.h"

namespace muster::launcherd::inline daemon {
namespace {

using base::Code;

constexpr std::string_view kWaits = "waits for slots";

struct Known {
  base::JobId id;
  v1::StoredSpec spec;
};

base::Result<Known> read_known(StoreReader& reader, const std::string& request_id) {
  MUSTER_ASSIGN_OR_RETURN(const base::JobId id, reader.job_of_request(request_id));
  MUSTER_ASSIGN_OR_RETURN(v1::StoredSpec spec, stored_spec(reader, id));
  return Known{id, std::move(spec)};
}

// check_placement() skips jobs below both limits, because their placement always fits into the store.
constexpr int kManyRanks = 10'000;
constexpr std::size_t kManyHosts = 1'000;
// Bytes of a recovery record in addition to the placement: a secret, and the frame of an event.
constexpr std::size_t kBesidePlacement = 1024;

// Checks that the placement can be stored. When the job starts, one record holds the hosts of all ranks and what they
// may use there.
base::Status check_placement(const JobNeed& need, const model::JobSpec& job, std::vector<SlotHost> hosts) {
  const std::size_t most_hosts = std::min(static_cast<std::size_t>(need.ranks()), hosts.size());
  if (need.ranks() < kManyRanks && most_hosts < kManyHosts) return base::ok_status();
  for (SlotHost& host : hosts) {
    host.used = 0;
    host.is_drained = host.is_down = false;
    if (host.source == SlotSource::kAwaited) host.source = SlotSource::kUnknown;
    // Treat an unknown host as known, because the job can be placed on it later.
    if (!host.is_known()) host.is_shared = false;
  }
  auto placement = fit(need, hosts);
  if (!placement) return base::ok_status();  // some of its hosts have not connected yet
  placement->roles = model::role_ranks(job.roles);
  Recovery recovery;
  recovery.placement = *std::move(placement);
  const std::size_t bytes = recovery_bytes(recovery).size() + kBesidePlacement;
  if (bytes <= kLongestBlob) return base::ok_status();
  return base::invalid_argument(
      "spec.size: the placement of {} ranks takes {} bytes in the job store, more than its limit of {}: "
      "ask for fewer ranks",
      need.ranks(), bytes, kLongestBlob);
}

v1::SubmitResponse response_for(const base::JobId& id) {
  v1::SubmitResponse response;
  response.set_job_id(id.str());
  return response;
}

}  // namespace

struct JobAdmission::Candidate {
  Admitted job;
  std::string environment;  // bytes of a StoredEnvironment
  OnAdmitted on_admitted;
};

base::Result<JobAdmission::Candidate> JobAdmission::check(const v1::SubmitRequest& request,
                                                          const std::vector<SlotHost>& hosts) const {
  MUSTER_ASSIGN_OR_RETURN(proto::Submission submission, proto::submission_of(request));
  MUSTER_ASSIGN_OR_RETURN(JobNeed need, need_of(submission.job, hosts, more_may_join_));
  MUSTER_RETURN_IF_ERROR(check_placement(need, submission.job, hosts));
  v1::StoredEnvironment environment;
  *environment.mutable_environment() = request.environment();
  *environment.mutable_role_environment() = request.role_environment();
  return Candidate{.job = {.id = base::JobId::random(),
                           .request = proto::without_values(request),
                           .user = {},
                           .submission = std::move(submission),
                           .need = std::move(need),
                           .after = {},
                           .submitted = {},
                           .reason = {}},
                   .environment = environment.SerializeAsString(),
                   .on_admitted = {}};
}

void JobAdmission::submit(const v1::SubmitRequest& request, const std::string& user, const std::vector<SlotHost>& hosts,
                          std::vector<model::JobDependency> after, OnAdmitted on_admitted,
                          Reply<v1::SubmitResponse> reply) {
  auto candidate = check(request, hosts);
  if (!candidate.ok()) {
    reply(candidate.status());
    return;
  }
  candidate->job.user = user;
  candidate->job.after = std::move(after);
  candidate->on_admitted = std::move(on_admitted);
  store_new(std::make_shared<Candidate>(std::move(*candidate)), std::move(reply));
}

void JobAdmission::store_new(std::shared_ptr<Candidate> candidate, Reply<v1::SubmitResponse> reply) {
  Admitted& job = candidate->job;
  v1::StoredSpec spec;
  *spec.mutable_request() = job.request;
  spec.set_size(job.need.ranks());
  const base::WallTime now = clock_->wall();
  std::string reason(kWaits);
  if (!job.after.empty()) reason = "waits for " + model::describe(job.after.front());
  if (job.request.held()) reason = held_reason(job.user);
  job.submitted = now;
  job.reason = reason;
  Batch batch = {
      NewJob{.id = job.id,
             .request_id = job.request.request_id(),
             .name = job.request.name(),
             .priority = job.request.priority(),
             .user = job.user,
             .submitted = now,
             .held_by = job.request.held() ? std::optional(job.user) : std::nullopt,
             .reason = reason,
             .spec = spec.SerializeAsString(),
             .environment = candidate->environment,
             .after = job.after,
             .notifies = !job.submission.notify.empty()},
      NewEvent{.job = job.id,
               .time = now,
               .message = proto::stored_event(model::JobStateChanged{model::JobState::kQueued, reason}, now)}};
  store_->append(std::move(batch), gate_.wrap([this, candidate, reply](const base::Status& status) {
    stored_new(candidate, reply, status);
  }));
}

void JobAdmission::stored_new(const std::shared_ptr<Candidate>& candidate, const Reply<v1::SubmitResponse>& reply,
                              const base::Status& status) {
  if (status.code() == Code::kAlreadyExists) {
    answer_again(candidate, reply);
    return;
  }
  if (!status.ok()) {
    reply(status);
    return;
  }
  const base::JobId id = candidate->job.id;
  candidate->on_admitted(std::move(candidate->job));
  reply(response_for(id));
}

// The request_id was used before. Replies with the same job, unless the requests differ. The comparison leaves out
// values of variables, because the store removes them when a job has ended.
void JobAdmission::answer_again(std::shared_ptr<Candidate> candidate, Reply<v1::SubmitResponse> reply) {
  const std::string request_id = candidate->job.request.request_id();
  if (request_id.empty()) {  // the random id itself was used already, which hardly ever happens
    candidate->job.id = base::JobId::random();
    store_new(std::move(candidate), std::move(reply));
    return;
  }
  store_->read<Known>(
      [request_id](StoreReader& reader) { return read_known(reader, request_id); },
      gate_.wrap([this, candidate, reply](base::Result<Known> known) {
        if (known.status().code() == Code::kNotFound) {
          candidate->job.id = base::JobId::random();
          store_new(candidate, reply);
          return;
        }
        if (!known.ok()) {
          reply(known.status());
          return;
        }
        if (known->spec.request().SerializeAsString() != candidate->job.request.SerializeAsString()) {
          reply(base::already_exists("request_id: already used for job {} with another request; use a new one",
                                     known->id.str()));
          return;
        }
        reply(response_for(known->id));
      }));
}

}  // namespace muster::launcherd::daemon
