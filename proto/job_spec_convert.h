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
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "model/elastic_policy.h"
#include "model/job_array.h"
#include "model/job_dependency.h"
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
  std::vector<model::DependencyWords> after{};  // as the request names them
  std::string notify{};                         // a command for /bin/sh; empty means none
  std::optional<model::ArraySpec> array{};      // nullopt for a single job
};

// Returns the job without its environment. A `placement.np` of 0 means that launcherd derives it from the hosts.
base::Result<model::JobSpec> job_spec_of(const v1::JobSpec& spec);
base::Result<LaunchRequests> launch_requests_of(const v1::JobSpec& spec);
base::Result<Submission> submission_of(const v1::SubmitRequest& request);

// Reads a time as a deadline. INVALID_ARGUMENT names `field`.
base::Result<base::WallTime> deadline_of(std::string_view field, const google::protobuf::Timestamp& time);
// Reads what a job waits for. INVALID_ARGUMENT names "after".
base::Result<std::vector<model::DependencyWords>> dependencies_of(
    const google::protobuf::RepeatedPtrField<v1::JobDependency>& after);
v1::JobDependency to_proto(const model::JobDependency& dependency);

// Converts a job without its environment, input and output, which v1::JobSpec lacks. Also drops each host's max_slots.
v1::JobSpec to_proto(const model::JobSpec& job);

// Removes the values of variables and keeps their names. launcherd stores and compares this form.
v1::SubmitRequest without_values(v1::SubmitRequest request);

}  // namespace muster::proto
