// JobCatalog answers ListJobs with a filter, with states or in an order. It sorts the short keys of all jobs and reads
// only the jobs of the page. It keeps the words by which filters find a job, because a filter looks at every job.
//
// Owner: DaemonApi, shared with its questions to the store.
// Thread: the store's reading thread only.
// Memory: at most kLongestText bytes for each stored job, and only once a filter was used.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "launcherd/store/store_reader.h"
#include "proto/muster/v1/launcher.pb.h"

namespace muster::launcherd::inline daemon {

class JobCatalog {
 public:
  static constexpr std::size_t kLongestText = 4096;
  static constexpr std::size_t kLongestFilter = 1024;

  // `now` is for the run time of jobs that run. INVALID_ARGUMENT: the filter is too long, or the page token or the
  // order is not one of ours.
  base::Result<v1::ListJobsResponse> list(StoreReader& reader, const v1::ListJobsRequest& request, base::WallTime now);

 private:
  // The stored fields of a job, without its key.
  struct Facts {
    int size = 0;
    std::string spec_text{};  // lower case, like all texts here
    std::string host_text{};
    std::uint64_t last_sequence = 0;  // of the job when host_text was read
  };

  base::Result<Facts> facts_of(StoreReader& reader, const JobKey& key, bool needs_text);
  base::Result<bool> matches(StoreReader& reader, const JobKey& key, const std::vector<std::string>& words);
  base::Status keep_matching(StoreReader& reader, const v1::ListJobsRequest& request, std::vector<JobKey>& keys);
  base::Status sort(StoreReader& reader, const v1::ListJobsRequest& request, base::WallTime now,
                    std::vector<JobKey>& keys);
  void forget_others(const std::vector<JobKey>& keys);

  std::unordered_map<std::int64_t, Facts> facts_;  // by the job's number
};

}  // namespace muster::launcherd::daemon
