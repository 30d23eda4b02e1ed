// Makes the messages of launcher.proto that show jobs, from what the store holds.
//
// Thread: functions that take a reader run on the store's reading thread.
#pragma once

#include <cstddef>
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
// An answer exceeds this by at most one job or rank. It is below gRPC's limit for a message and leaves room for the
// hosts of running jobs.
inline constexpr std::size_t kLongestAnswer = std::size_t{3} << 20;

// DATA_LOSS: the stored bytes are no spec.
base::Result<v1::StoredSpec> stored_spec(StoreReader& reader, const base::JobId& id);
// The job with its environment variables. Errors are those of stored_spec() and of proto::submission_of().
base::Result<proto::Submission> stored_submission(StoreReader& reader, const base::JobId& id);

// The job with the requested ranks. Hosts are included only if the job has ended; those of an open job are not stored.
base::Result<v1::Job> read_job(StoreReader& reader, const base::JobId& id, const v1::GetJobRequest& request);
// Jobs without their ranks.
base::Result<v1::ListJobsResponse> read_jobs(StoreReader& reader, const v1::ListJobsRequest& request);

}  // namespace muster::launcherd::daemon
