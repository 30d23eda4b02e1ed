// Questions to the job store, on a connection of its own that cannot write: what is read is what was committed before,
// also while others write. Blocking; used by one thread. NOT_FOUND: no such job. DATA_LOSS: what lies there is none of
// ours. Lists are bounded by `limit` (1 to kLongestPage; more counts as that).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "launcherd/store/records.h"
#include "launcherd/store/sqlite.h"

namespace muster::launcherd::inline store {

constexpr int kLongestPage = 1000;
// No page of events holds more bytes of messages than this and one event.
constexpr std::size_t kPageBytes = std::size_t{1} << 20;

class StoreReader {
 public:
  // Of a file that open_store() made.
  static base::Result<StoreReader> open(const std::string& path);

  enum class Which { kAll, kOpen };  // kOpen: jobs that are not final

  base::Result<StoredJob> job(const base::JobId& id);
  // The one job whose id begins so. INVALID_ARGUMENT: several do; names some.
  base::Result<base::JobId> job_by_prefix(std::string_view prefix);
  base::Result<base::JobId> job_of_request(std::string_view request_id);
  // Newest first. A job that is submitted meanwhile is on no later page; none comes twice.
  base::Result<JobPage> jobs(Which which, int limit, std::string_view page_token);
  // Oldest first, with a number above `after`.
  base::Result<std::vector<StoredJob>> open_jobs(std::int64_t after, int limit);
  // Those that ended before `time`, the earliest first: for retention.
  base::Result<std::vector<base::JobId>> ended_before(base::WallTime time, int limit);

  // In order, from the first with a sequence above `after`; empty: there is none yet.
  base::Result<std::vector<StoredEvent>> events(const base::JobId& id, std::uint64_t after, int limit);
  // Of all jobs, in order of commit, from the first with a position above `after`.
  base::Result<std::vector<StoredEvent>> all_events(std::int64_t after, int limit);
  // Of one attempt, in order of rank, from `first`.
  base::Result<std::vector<StoredRank>> ranks(const base::JobId& id, int attempt, int first, int limit);
  base::Result<std::vector<StoredHost>> hosts();  // by name

  base::Result<std::string> spec(const base::JobId& id);
  // Secrets, for starting and recovering jobs only; empty: none, or the job has ended.
  base::Result<std::string> environment(const base::JobId& id);
  base::Result<std::string> recovery(const base::JobId& id);

 private:
  struct Statements {
    Statement job, prefix, request, all_jobs, open_jobs, open_jobs_up, ended;
    Statement events, all_events, ranks, hosts, spec, environment, recovery;
  };

  StoreReader(Database database, Statements statements)
      : database_(std::move(database)), statements_(std::move(statements)) {}

  static base::Result<Statements> prepare(Database& database);
  base::Result<std::int64_t> number_of(const base::JobId& id);
  base::Result<std::string> content(const Statement& statement, const base::JobId& id);

  Database database_;  // before its statements
  Statements statements_;
};

}  // namespace muster::launcherd::store
