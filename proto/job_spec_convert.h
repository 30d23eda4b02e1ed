// Converts submitted jobs between the wire and the model.
//
// Thread: any; all functions are pure.
// Errors: sizes, names and ranges from the wire are checked. INVALID_ARGUMENT names the field.
// Secrets: only SubmitRequest.environment and model::JobSpec::environment hold values of environment variables. A spec
// that is stored or shown holds none.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "model/elastic_policy.h"
#include "model/job_spec.h"
#include "proto/muster/v1/launcher.pb.h"

namespace muster::proto {

// The parts of a job that concern the launcher alone; ranks do not see them.
struct LaunchRequests {
  std::string contain = "auto";  // auto | cgroup | pidns | subreaper
  bool hold = true;              // ranks outlive their launcherd until the lease ends
  std::optional<base::WallTime> deadline{};
  model::ElasticPolicy elastic_policy = model::ElasticPolicy::kFixed;
};

struct Submission {
  model::JobSpec job;  // its environment is exactly the request's variables
  LaunchRequests requests;
  std::chrono::seconds retention{std::chrono::hours(24 * 7)};
};

// Returns the job without its environment. A `placement.np` of 0 means that launcherd derives it from the hosts.
base::Result<model::JobSpec> job_spec_of(const v1::JobSpec& spec);
base::Result<LaunchRequests> launch_requests_of(const v1::JobSpec& spec);
base::Result<Submission> submission_of(const v1::SubmitRequest& request);

// Converts a job without its environment, input and output, which v1::JobSpec lacks. Also drops each host's max_slots.
v1::JobSpec to_proto(const model::JobSpec& job);

// Removes the values of variables and keeps their names. launcherd stores and compares this form.
v1::SubmitRequest without_values(v1::SubmitRequest request);

}  // namespace muster::proto
