// Jobs as launcher.proto shows them, from what the store holds. The functions that take a reader run on the store's
// reading thread.
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
// No answer has more bytes than this and one job or rank: below gRPC's own limit for a message, with room for the hosts
// of jobs that run.
inline constexpr std::size_t kLongestAnswer = std::size_t{3} << 20;

// DATA_LOSS: the store holds something else.
base::Result<v1::StoredSpec> stored_spec(StoreReader& reader, const base::JobId& id);
// The job with its variables. The same error, and those of proto::submission_of().
base::Result<proto::Submission> stored_submission(StoreReader& reader, const base::JobId& id);

// With the ranks that the request asks for, and their hosts if it has ended; those of an open job are not stored.
base::Result<v1::Job> read_job(StoreReader& reader, const base::JobId& id, const v1::GetJobRequest& request);
// Without ranks.
base::Result<v1::ListJobsResponse> read_jobs(StoreReader& reader, const v1::ListJobsRequest& request);

}  // namespace muster::launcherd::daemon
