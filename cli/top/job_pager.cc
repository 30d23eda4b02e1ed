#include "cli/top/job_pager.h"

#include <algorithm>
#include <iterator>

namespace muster::cli::inline top {
namespace {

// Pages begin at multiples of this number, so that tokens serve again after the screen has scrolled a little.
constexpr std::int64_t kStep = 100;
constexpr std::int64_t kLongestPage = 1000;  // as ListJobsRequest.page_size

}  // namespace

void JobPager::forget() {
  tokens_ = {{0, ""}};
}

// Asks for the page that begins at row `at`. It is one of the wanted pages, or a long one before them.
base::Result<v1::ListJobsResponse> JobPager::page(std::int64_t at, std::int64_t first, std::int64_t end) {
  const std::int64_t start = first / kStep * kStep;
  const std::int64_t until = at < start ? start : (end + kStep - 1) / kStep * kStep;
  v1::ListJobsRequest request;
  request.set_all(list_.all);
  request.set_filter(list_.filter);
  request.set_order(list_.order);
  request.set_reverse(list_.is_reversed);
  request.set_page_token(tokens_.at(at));
  request.set_page_size(static_cast<int>(std::clamp<std::int64_t>(until - at, 1, kLongestPage)));
  return list_jobs_(request);
}

base::Result<JobRows> JobPager::read(const JobList& list, std::int64_t first, std::int64_t count) {
  if (list != list_) forget();
  list_ = list;
  const std::int64_t end = first + std::max<std::int64_t>(count, 1);
  JobRows rows;
  std::int64_t at = std::prev(tokens_.upper_bound(first))->first;
  while (true) {
    MUSTER_ASSIGN_OR_RETURN(v1::ListJobsResponse answer, page(at, first, end));
    // Tokens of the order by time mean a job, not a row: a new job moves all rows.
    const bool has_moved = list_.order == v1::JOB_ORDER_UNSPECIFIED && answer.total() != total_;
    total_ = answer.total();
    if (has_moved && at > 0) {
      forget();
      at = 0;
      rows = {};
      continue;
    }
    const std::int64_t next = at + answer.jobs_size();
    if (next > first || answer.next_page_token().empty()) {
      if (rows.jobs.empty()) rows.first = at;
      std::move(answer.mutable_jobs()->begin(), answer.mutable_jobs()->end(), std::back_inserter(rows.jobs));
    }
    rows.total = answer.jobs().empty() ? answer.total() : std::max(answer.total(), next);
    if (answer.next_page_token().empty() || next == at) break;
    tokens_[next] = answer.next_page_token();
    at = next;
    if (at >= end) break;
  }
  return rows;
}

}  // namespace muster::cli::top
