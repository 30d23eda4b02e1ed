// Converts stored jobs into the messages of launcher.proto.
//
// Thread: functions that take a reader run on the store's reading thread.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/ids.h"
#include "base/status.h"
#include "launcherd/store/store_reader.h"
#include "proto/job_spec_convert.h"
#include "proto/muster/v1/launcher.pb.h"
#include "proto/muster/v1/stored.pb.h"

namespace muster::launcherd::inline daemon {

inline constexpr int kMostRanksOfAnAnswer = 10'000;
inline constexpr int kMostJobsOfAPage = 1'000;
// An answer exceeds this size by at most one job or rank. The limit is below gRPC's own limit for a message and leaves
// room for the hosts of running jobs.
inline constexpr std::size_t kLongestAnswer = std::size_t{3} << 20;

// Returns "held by ann", the reason of a job that waits for its release.
std::string held_reason(const std::string& held_by);

// DATA_LOSS: the stored bytes are not a valid spec.
base::Result<v1::StoredSpec> stored_spec(StoreReader& reader, const base::JobId& id);
// Returns the request with what UpdateJob has changed of it, apart from the jobs for which it waits.
v1::SubmitRequest updated_request(v1::StoredSpec spec, int priority);
// Returns the job with its environment variables and what UpdateJob has changed. Returns the errors of stored_spec()
// and of proto::submission_of().
base::Result<proto::Submission> stored_submission(StoreReader& reader, const base::JobId& id);

// Returns the job with the requested ranks. The answer includes hosts only if the job has ended, because the hosts of
// an open job are not stored. A job that failed has its hints.
// `size` is the job's number of ranks now, if it has slots.
base::Result<v1::Job> read_job(StoreReader& reader, const base::JobId& id, const v1::GetJobRequest& request,
                               std::optional<int> size = std::nullopt);
// Returns the job as lists show it: without its ranks.
base::Result<v1::Job> read_listed_job(StoreReader& reader, const StoredJob& stored);
// Returns the newest jobs first. It ignores filter, states and order; JobCatalog serves them.
base::Result<v1::ListJobsResponse> read_jobs(StoreReader& reader, const v1::ListJobsRequest& request);
// The number of jobs on a page. INVALID_ARGUMENT: page_size is negative.
base::Result<int> page_size_of(const v1::ListJobsRequest& request);

}  // namespace muster::launcherd::daemon
