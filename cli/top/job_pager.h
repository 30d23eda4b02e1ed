// JobPager reads some rows of launcherd's list of jobs without reading the rows before them again and again. It keeps
// the page tokens that it has seen.
//
// Thread: one thread; read() blocks as long as its function.
// Errors: those of the function.
//
// Example:
//   JobPager pager([&](const auto& request) { return client.list_jobs(request, 20s); });
//   MUSTER_ASSIGN_OR_RETURN(const JobRows rows, pager.read(list, 9'950, 100));
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "base/status.h"
#include "cli/top/top_query.h"

namespace muster::cli::inline top {

class JobPager {
 public:
  using ListJobs = std::function<base::Result<v1::ListJobsResponse>(const v1::ListJobsRequest&)>;

  explicit JobPager(ListJobs list_jobs) : list_jobs_(std::move(list_jobs)) {}

  // Returns the rows from `first` on, at least `count` if there are as many.
  base::Result<JobRows> read(const JobList& list, std::int64_t first, std::int64_t count);

 private:
  void forget();
  base::Result<v1::ListJobsResponse> page(std::int64_t at, std::int64_t first, std::int64_t end);

  const ListJobs list_jobs_;
  JobList list_{};
  std::map<std::int64_t, std::string> tokens_{{0, ""}};  // by the row at which their page begins
  std::int64_t total_ = 0;                               // of the answer before
};

}  // namespace muster::cli::top
