// Finds the jobs for which a job is to wait (--after).
//
// Thread: the store's reading thread.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "launcherd/store/store_reader.h"
#include "model/job_dependency.h"
#include "proto/muster/v1/launcher.pb.h"

namespace muster::launcherd::inline daemon {

using After = google::protobuf::RepeatedPtrField<v1::JobDependency>;

// Returns the jobs that have not ended. NOT_FOUND: one of them is unknown. FAILED_PRECONDITION: one has ended in
// another way than the job waits for. INVALID_ARGUMENT: the field is wrong, or has a job twice. All errors name
// "after".
base::Result<std::vector<model::JobDependency>> read_dependencies(StoreReader& reader, const After& after);

// The same for a new job. Returns none if a job with this request_id exists, because that request is only repeated.
base::Result<std::vector<model::JobDependency>> read_dependencies(StoreReader& reader,
                                                                  const v1::SubmitRequest& request);

// Returns "ended as FAILED with exit code 3".
std::string how_ended(model::JobState state, int exit_code);

}  // namespace muster::launcherd::daemon
