// Jobs as they are submitted, between the wire and the model. Everything that comes from the wire is checked: sizes,
// names, ranges; INVALID_ARGUMENT names the field. Pure.
//
// Values of environment variables are in SubmitRequest.environment and in model::JobSpec::environment, and nowhere
// else: no spec that is stored or shown holds one.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "model/job_spec.h"
#include "proto/muster/v1/launcher.pb.h"

namespace muster::proto {

// What of a job the launcher decides on and the ranks do not see.
struct LaunchWishes {
  std::string contain = "auto";  // auto | cgroup | pidns | subreaper
  bool hold = true;              // ranks outlive their launcherd, for as long as the lease
  std::optional<base::WallTime> deadline{};
};

struct Submission {
  model::JobSpec job;  // environment: exactly the request's variables, by name and value
  LaunchWishes wishes;
  std::chrono::seconds retention{std::chrono::hours(24 * 7)};
};

// The job without its environment. `placement.np` is 0 where the spec leaves the size to the hosts.
base::Result<model::JobSpec> job_spec_of(const v1::JobSpec& spec);
base::Result<LaunchWishes> launch_wishes_of(const v1::JobSpec& spec);
base::Result<Submission> submission_of(const v1::SubmitRequest& request);

// Neither environment nor input nor output, which are not part of it; a host's max_slots is dropped.
v1::JobSpec to_proto(const model::JobSpec& job);

// The request with the names of its variables only: what is stored and compared.
v1::SubmitRequest without_values(v1::SubmitRequest request);

}  // namespace muster::proto
