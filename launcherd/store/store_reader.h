// StoreReader queries the job store on its own read-only connection. A query sees everything that was committed before
// it, even while another thread writes.
// Thread: one; blocking.
// NOT_FOUND: the job is unknown. DATA_LOSS: the file holds invalid data. `limit` is the longest result; values outside
// 1 to kLongestPage are clamped.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "launcherd/store/records.h"
#include "launcherd/store/sqlite.h"

namespace muster::launcherd::inline store {

constexpr int kLongestPage = 1000;
constexpr int kMostKeys = 1'000'000;  // jobs that a sorted or filtered list considers
// A page of events ends once its messages exceed this size. So a page exceeds it by at most one event.
constexpr std::size_t kPageBytes = std::size_t{1} << 20;

class StoreReader {
 public:
  // Opens a file that open_store() created.
  static base::Result<StoreReader> open(const std::string& path);

  enum class Which { kAll, kOpen };  // kOpen: jobs that are not final

  base::Result<StoredJob> job(const base::JobId& id);
  // Returns the only job whose id begins with `prefix`. INVALID_ARGUMENT if several do; the message names some.
  base::Result<base::JobId> job_by_prefix(std::string_view prefix);
  base::Result<base::JobId> job_of_request(std::string_view request_id);
  // Returns the newest jobs first, without elements of arrays, as all lists here. A job that is submitted between two
  // pages appears on no later page. No job appears twice.
  base::Result<JobPage> jobs(Which which, int limit, std::string_view page_token);
  base::Result<std::int64_t> count(Which which);
  // Returns all jobs, the newest first. At most kMostKeys, so that the result has a limit.
  base::Result<std::vector<JobKey>> job_keys(Which which);
  // Returns stored elements of an array by their indexes, from `first` on.
  base::Result<std::vector<StoredElement>> elements(const base::JobId& array, int first, int limit);
  // Returns how many stored elements of an array have which state.
  base::Result<std::vector<std::pair<model::JobState, std::int64_t>>> element_counts(const base::JobId& array);
  // NOT_FOUND: the element is not stored.
  base::Result<base::JobId> element(const base::JobId& array, int index);
  base::Result<StoredJob> job_of_number(std::int64_t number);
  // Returns each host once that has ranks of this attempt.
  base::Result<std::vector<std::string>> rank_hosts(std::int64_t number, int attempt);
  // Returns the oldest jobs first, with a number above `after`. Includes elements of arrays.
  base::Result<std::vector<StoredJob>> open_jobs(std::int64_t after, int limit);
  // Returns jobs that ended before `time`, the earliest first. For retention.
  base::Result<std::vector<base::JobId>> ended_before(base::WallTime time, int limit);

  // Returns events in order, from the first with a sequence above `after`. Empty if none exist yet.
  base::Result<std::vector<StoredEvent>> events(const base::JobId& id, std::uint64_t after, int limit);
  // Returns events of all jobs in order of commit, from the first with a position above `after`. Events that share a
  // position come together, so there may be kMostGrouped - 1 more than `limit`.
  base::Result<std::vector<StoredEvent>> all_events(std::int64_t after, int limit);
  // Returns how many ranks of one attempt have a stored state, up to the highest number.
  base::Result<int> rank_count(const base::JobId& id, int attempt);
  // Returns ranks of one attempt in order, from rank `first`.
  base::Result<std::vector<StoredRank>> ranks(const base::JobId& id, int attempt, int first, int limit);
  base::Result<std::vector<StoredHost>> hosts();  // by name

  // Returns the jobs for which a job still waits, by their ids. Each of them may be unknown by now.
  base::Result<std::vector<model::JobDependency>> after(const base::JobId& id);
  // Returns ended jobs whose commands have not run yet (NewJob::notifies), the oldest first, with a number above
  // `above`.
  base::Result<std::vector<StoredJob>> to_notify(std::int64_t above, int limit);

  base::Result<std::string> spec(const base::JobId& id);
  // Both return secrets, so use them only to start and recover jobs. Empty if none exist or the job has ended.
  base::Result<std::string> environment(const base::JobId& id);
  base::Result<std::string> recovery(const base::JobId& id);

 private:
  struct Statements {
    Statement job, job_of_number, prefix, request, all_jobs, open_jobs, open_jobs_up, ended;
    Statement count_all, count_open, all_keys, open_keys, rank_hosts;
    Statement after, to_notify, elements, element_counts, element;
    Statement events, all_events, ranks, rank_count, hosts, spec, environment, recovery;
  };

  StoreReader(Database database, Statements statements)
      : database_(std::move(database)), statements_(std::move(statements)) {}

  static base::Result<Statements> prepare(Database& database);
  base::Result<std::int64_t> number_of(const base::JobId& id);
  base::Result<std::string> content(const Statement& statement, const base::JobId& id);

  Database database_;  // precedes its statements, so that it is destroyed after them
  Statements statements_;
};

}  // namespace muster::launcherd::store
