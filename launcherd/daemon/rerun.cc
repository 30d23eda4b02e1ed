#include "launcherd/daemon/rerun.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "launcherd/daemon/job_view.h"
#include "proto/muster/v1/stored.pb.h"

namespace muster::launcherd::inline daemon {
namespace {

using base::Code;

// Returns the job that has this request id already.
base::Result<std::optional<base::JobId>> find_known(StoreReader& reader, const v1::SubmitRequest& request) {
  if (request.request_id().empty()) return std::optional<base::JobId>();
  const auto known = reader.job_of_request(request.request_id());
  if (known.status().code() == Code::kNotFound) return std::optional<base::JobId>();
  if (!known.ok()) return known.status();
  MUSTER_ASSIGN_OR_RETURN(const v1::StoredSpec spec, stored_spec(reader, *known));
  if (spec.request().SerializeAsString() == request.SerializeAsString()) return std::optional(*known);
  return base::already_exists("request_id: already used for job {} with another request; use a new one", known->str());
}

bool needs_values(const v1::SubmitRequest& request) {
  return !request.environment().empty() ||
         std::ranges::any_of(request.role_environment(),
                             [](const v1::RoleEnvironment& role) { return !role.environment().empty(); });
}

}  // namespace

base::Result<StoredRerun> read_rerun(StoreReader& reader, const base::JobId& id, const std::string& request_id) {
  StoredRerun rerun;
  // Read the environment before the state: if the job has not ended then, the environment is complete.
  MUSTER_ASSIGN_OR_RETURN(std::string environment, reader.environment(id));
  MUSTER_ASSIGN_OR_RETURN(const StoredJob job, reader.job(id));
  if (!model::is_final(job.state)) rerun.environment = std::move(environment);
  MUSTER_ASSIGN_OR_RETURN(v1::StoredSpec spec, stored_spec(reader, id));
  rerun.request = updated_request(std::move(spec), job.priority);
  rerun.request.set_request_id(request_id);
  rerun.request.clear_held();
  rerun.request.clear_after();
  MUSTER_ASSIGN_OR_RETURN(rerun.known, find_known(reader, rerun.request));
  return rerun;
}

base::Result<v1::SubmitRequest> complete_rerun(const base::JobId& id, v1::SubmitRequest request,
                                               const std::string* environment, base::WallTime now) {
  const v1::JobSpec& spec = request.spec();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(now).time_since_epoch().count();
  if (spec.has_deadline() && spec.deadline().seconds() <= seconds) {
    return base::failed_precondition("the deadline of job {} has passed; submit it again with another --deadline",
                                     id.str());
  }
  if (!needs_values(request)) return request;
  v1::StoredEnvironment stored;
  if (environment == nullptr || !stored.ParseFromString(*environment)) {
    return base::failed_precondition("launcherd no longer has the environment of job {}; submit it again", id.str());
  }
  *request.mutable_environment() = std::move(*stored.mutable_environment());
  *request.mutable_role_environment() = std::move(*stored.mutable_role_environment());
  return request;
}

}  // namespace muster::launcherd::daemon
