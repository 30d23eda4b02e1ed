// StoreReader: prepared statements, conversion of rows into values, then one function per query.
// Read StoreReader::jobs and events first, then job_of and the collect functions.
#include "launcherd/store/store_reader.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <limits>

#include "base/strings.h"
#include "launcherd/store/event_group.h"
#include "launcherd/store/page_token.h"

namespace muster::launcherd::inline store {
namespace {

base::WallTime time_of(std::int64_t micros) {
  return base::WallTime(std::chrono::duration_cast<base::WallTime::duration>(std::chrono::microseconds(micros)));
}

std::optional<base::WallTime> maybe_time_of(std::optional<std::int64_t> micros) {
  return micros ? std::optional(time_of(*micros)) : std::nullopt;
}

std::int64_t bounded(int limit) {
  return std::clamp(limit, 1, kLongestPage);
}

base::Status no_such_job(const base::JobId& id) {
  return base::not_found("unknown job {}", id.str());
}

// Parses an id that the file stores.
base::Result<base::JobId> stored_id(const Execution& row, int column) {
  auto id = base::JobId::parse(row.bytes(column));
  if (!id.ok()) return base::data_loss("the job store holds a job with a malformed id; restore a copy of the store");
  return id;
}

#define MUSTER_JOB_COLUMNS                                                                                          \
  "id, number, request_id, name, priority, state, reason, attempt, exit_code, submitted_us, started_us, ended_us, " \
  "last_sequence, user, held_by IS NOT NULL, held_by, "                                                             \
  "(SELECT id FROM jobs AS whole WHERE whole.number = jobs.array), array_index"

base::Result<StoredJob> job_of(const Execution& row) {
  MUSTER_ASSIGN_OR_RETURN(base::JobId id, stored_id(row, 0));
  const auto state = model::job_state_of(row.integer(5));
  if (!state) {
    return base::data_loss("job {}: stored state {} is invalid; restore a copy of the job store", id.str(),
                           row.integer(5));
  }
  StoredJob job{.id = std::move(id)};
  job.number = row.integer(1);
  job.request_id = row.bytes(2);
  job.name = row.bytes(3);
  job.priority = static_cast<int>(row.integer(4));
  job.state = *state;
  job.reason = row.bytes(6);
  job.attempt = static_cast<int>(row.integer(7));
  if (const auto code = row.maybe_integer(8)) job.exit_code = static_cast<int>(*code);
  job.submitted = time_of(row.integer(9));
  job.started = maybe_time_of(row.maybe_integer(10));
  job.ended = maybe_time_of(row.maybe_integer(11));
  job.last_sequence = static_cast<std::uint64_t>(row.integer(12));
  job.user = row.bytes(13);
  if (row.integer(14) != 0) job.held_by = row.bytes(15);
  if (const auto index = row.maybe_integer(17)) {
    MUSTER_ASSIGN_OR_RETURN(base::JobId array, stored_id(row, 16));
    job.element = ArrayPlace{std::move(array), static_cast<int>(*index)};
  }
  return job;
}

#define MUSTER_KEY_COLUMNS "number, state, priority, attempt, name, started_us, ended_us, last_sequence"

base::Result<JobKey> key_of(const Execution& row) {
  const auto state = model::job_state_of(row.integer(1));
  if (!state) {
    return base::data_loss("a stored job has the invalid state {}; restore a copy of the job store", row.integer(1));
  }
  return JobKey{.number = row.integer(0),
                .state = *state,
                .priority = static_cast<int>(row.integer(2)),
                .attempt = static_cast<int>(row.integer(3)),
                .name = row.bytes(4),
                .started = maybe_time_of(row.maybe_integer(5)),
                .ended = maybe_time_of(row.maybe_integer(6)),
                .last_sequence = static_cast<std::uint64_t>(row.integer(7))};
}

base::Result<StoredEvent> event_of(const Execution& row) {
  MUSTER_ASSIGN_OR_RETURN(base::JobId id, stored_id(row, 0));
  StoredEvent event{.job = std::move(id)};
  event.position = row.integer(1);
  event.sequence = static_cast<std::uint64_t>(row.integer(2));
  event.time = time_of(row.integer(3));
  if (const auto state = row.maybe_integer(4)) event.job_state = model::job_state_of(*state);
  event.message = row.bytes(5);
  return event;
}

// Appends the events of one row whose number is above `after`.
base::Status add_events_of(const Execution& row, std::uint64_t after, std::vector<StoredEvent>& events) {
  MUSTER_ASSIGN_OR_RETURN(StoredEvent last, event_of(row));
  const auto count = static_cast<std::size_t>(std::max<std::int64_t>(row.integer(6), 1));
  if (count == 1) {
    events.push_back(std::move(last));
    return base::ok_status();
  }
  auto messages = messages_of_group(last.message);
  if (!messages || messages->size() != count || last.sequence < count) {
    return base::data_loss("job {}: the stored events up to {} are corrupt; restore a copy of the job store",
                           last.job.str(), last.sequence);
  }
  last.message.clear();
  const std::uint64_t first = last.sequence - count + 1;
  for (std::size_t i = 0; i < count; ++i) {
    if (first + i <= after) continue;
    StoredEvent& event = events.emplace_back(last);
    event.sequence = first + i;
    event.message = std::move((*messages)[i]);
  }
  return base::ok_status();
}

base::Result<StoredRank> rank_of(const Execution& row) {
  const auto state = model::rank_state_of(row.integer(2));
  if (!state)
    return base::data_loss("stored rank state {} is invalid; restore a copy of the job store", row.integer(2));
  StoredRank rank;
  rank.attempt = static_cast<int>(row.integer(0));
  rank.rank = static_cast<int>(row.integer(1));
  rank.state = *state;
  rank.host = row.bytes(3);
  rank.pid = row.integer(4);
  rank.exit_code = static_cast<int>(row.integer(5));
  rank.signal = static_cast<int>(row.integer(6));
  rank.detail = row.bytes(7);
  return rank;
}

// Converts all rows of `query` by `convert`.
template <typename Record, typename Convert>
base::Result<std::vector<Record>> collect(Execution& query, Convert convert) {
  std::vector<Record> records;
  while (true) {
    MUSTER_ASSIGN_OR_RETURN(const bool more, query.next());
    if (!more) return records;
    MUSTER_ASSIGN_OR_RETURN(Record record, convert(query));
    records.push_back(std::move(record));
  }
}

// Collects whole rows of events, those with a number above `after`, until there are `limit` events. The page ends early
// if the messages are long.
base::Result<std::vector<StoredEvent>> collect_events(Execution& query, std::uint64_t after, std::size_t limit) {
  std::vector<StoredEvent> events;
  for (std::size_t bytes = 0; bytes < kPageBytes && events.size() < limit;) {
    MUSTER_ASSIGN_OR_RETURN(const bool more, query.next());
    if (!more) break;
    const std::size_t before = events.size();
    MUSTER_RETURN_IF_ERROR(add_events_of(query, after, events));
    for (std::size_t i = before; i < events.size(); ++i) bytes += events[i].message.size();
  }
  return events;
}

}  // namespace

base::Result<StoreReader> StoreReader::open(const std::string& path) {
  MUSTER_ASSIGN_OR_RETURN(Database database, Database::open(path, Database::Access::kRead));
  MUSTER_RETURN_IF_ERROR(database.run("PRAGMA query_only = ON; PRAGMA temp_store = MEMORY"));
  MUSTER_ASSIGN_OR_RETURN(Statements statements, prepare(database));
  return StoreReader(std::move(database), std::move(statements));
}

base::Result<StoreReader::Statements> StoreReader::prepare(Database& database) {
  struct Row {
    Statement Statements::*place;
    const char* sql;
  };
  static constexpr Row kRows[] = {
      {&Statements::job, "SELECT " MUSTER_JOB_COLUMNS " FROM jobs WHERE id = ?"},
      {&Statements::job_of_number, "SELECT " MUSTER_JOB_COLUMNS " FROM jobs WHERE number = ?"},
      {&Statements::prefix, "SELECT id FROM jobs WHERE id >= ? AND id < ? AND array IS NULL ORDER BY id LIMIT 3"},
      {&Statements::request, "SELECT id FROM jobs WHERE request_id = ?"},
      {&Statements::all_jobs,
       "SELECT " MUSTER_JOB_COLUMNS " FROM jobs WHERE array IS NULL AND number < ? ORDER BY number DESC LIMIT ?"},
      {&Statements::open_jobs,
       "SELECT " MUSTER_JOB_COLUMNS " FROM jobs WHERE ended_us IS NULL AND array IS NULL AND number < ? "
       "ORDER BY number DESC LIMIT ?"},
      {&Statements::open_jobs_up,
       "SELECT " MUSTER_JOB_COLUMNS " FROM jobs WHERE ended_us IS NULL AND number > ? ORDER BY number LIMIT ?"},
      {&Statements::ended, "SELECT id FROM jobs WHERE ended_us < ? ORDER BY ended_us LIMIT ?"},
      {&Statements::count_all, "SELECT count(*) FROM jobs WHERE array IS NULL"},
      {&Statements::count_open, "SELECT count(*) FROM jobs WHERE ended_us IS NULL AND array IS NULL"},
      {&Statements::all_keys,
       "SELECT " MUSTER_KEY_COLUMNS " FROM jobs WHERE array IS NULL ORDER BY number DESC LIMIT ?"},
      {&Statements::open_keys,
       "SELECT " MUSTER_KEY_COLUMNS " FROM jobs WHERE ended_us IS NULL AND array IS NULL ORDER BY number DESC LIMIT ?"},
      {&Statements::rank_hosts, "SELECT DISTINCT host FROM ranks WHERE job = ? AND attempt = ?"},
      {&Statements::elements,
       "SELECT id, array_index, state, exit_code FROM jobs WHERE array = ? AND array_index >= ? "
       "ORDER BY array_index LIMIT ?"},
      {&Statements::element_counts, "SELECT state, count(*) FROM jobs WHERE array = ? GROUP BY state ORDER BY state"},
      {&Statements::element, "SELECT id FROM jobs WHERE array = ? AND array_index = ?"},
      {&Statements::after, "SELECT awaited, condition FROM dependencies WHERE job = ? ORDER BY awaited"},
      {&Statements::to_notify,
       "SELECT " MUSTER_JOB_COLUMNS
       " FROM jobs WHERE number IN (SELECT job FROM notifications WHERE job > ?) AND ended_us IS NOT NULL "
       "ORDER BY number LIMIT ?"},
      {&Statements::events,
       "SELECT ?3, position, sequence, time_us, job_state, message, count FROM events WHERE job = ?1 AND sequence > ?2 "
       "ORDER BY sequence LIMIT ?4"},
      {&Statements::all_events,
       "SELECT jobs.id, position, sequence, time_us, job_state, message, count FROM events JOIN jobs ON jobs.number = "
       "events.job "
       "WHERE position > ? ORDER BY position LIMIT ?"},
      {&Statements::ranks,
       "SELECT attempt, rank, state, host, pid, exit_code, signal, detail FROM ranks WHERE job = ? AND attempt = ? AND "
       "rank >= ? ORDER BY rank LIMIT ?"},
      {&Statements::rank_count, "SELECT coalesce(max(rank) + 1, 0) FROM ranks WHERE job = ? AND attempt = ?"},
      {&Statements::hosts, "SELECT name, slots, drained, reason, changed_us FROM hosts ORDER BY name"},
      {&Statements::spec, "SELECT content FROM specs WHERE job = ?"},
      {&Statements::environment, "SELECT content FROM environments WHERE job = ?"},
      {&Statements::recovery, "SELECT content FROM recoveries WHERE job = ?"},
  };
  static_assert(std::size(kRows) * sizeof(Statement) == sizeof(Statements), "each has its SQL");
  Statements all;
  for (const Row& row : kRows) {
    MUSTER_ASSIGN_OR_RETURN(all.*row.place, database.prepare(row.sql));
  }
  return all;
}

base::Result<StoredJob> StoreReader::job(const base::JobId& id) {
  Execution query = statements_.job.start();
  query.bind(1, id.str());
  MUSTER_ASSIGN_OR_RETURN(const bool found, query.next());
  if (!found) return no_such_job(id);
  return job_of(query);
}

base::Result<base::JobId> StoreReader::job_by_prefix(std::string_view prefix) {
  if (prefix.empty()) return base::invalid_argument("the job's id is empty: give its first letters");
  Execution query = statements_.prefix.start();
  query.bind(1, prefix);
  query.bind(2, std::string(prefix) + '\x7f');  // greater than all letters of ids
  std::vector<std::string> found;
  while (true) {
    MUSTER_ASSIGN_OR_RETURN(const bool more, query.next());
    if (!more) break;
    found.push_back(query.bytes(0));
  }
  if (found.size() == 1) return base::JobId::parse(found.front());
  if (found.empty()) return base::not_found("unknown job '{}'", base::printable(prefix.substr(0, 64)));
  return base::invalid_argument("the ids of several jobs begin with '{}', such as {} and {}: give more letters",
                                base::printable(prefix), found[0], found[1]);
}

base::Result<base::JobId> StoreReader::job_of_request(std::string_view request_id) {
  Execution query = statements_.request.start();
  query.bind(1, request_id);
  MUSTER_ASSIGN_OR_RETURN(const bool found, query.next());
  if (found) return stored_id(query, 0);
  return base::not_found("no job has the request id '{}'", base::printable(request_id.substr(0, 64)));
}

base::Result<JobPage> StoreReader::jobs(Which which, int limit, std::string_view token) {
  MUSTER_ASSIGN_OR_RETURN(const std::int64_t below, parse_page_token(token));
  Execution query = (which == Which::kAll ? statements_.all_jobs : statements_.open_jobs).start();
  query.bind(1, below);
  query.bind(2, bounded(limit) + 1);  // one row more shows whether a next page exists
  MUSTER_ASSIGN_OR_RETURN(std::vector<StoredJob> found, collect<StoredJob>(query, job_of));
  JobPage page{.jobs = std::move(found), .next = {}};
  if (static_cast<std::int64_t>(page.jobs.size()) <= bounded(limit)) return page;
  page.jobs.pop_back();
  page.next = page_token(page.jobs.back().number);
  return page;
}

base::Result<std::int64_t> StoreReader::count(Which which) {
  Execution query = (which == Which::kAll ? statements_.count_all : statements_.count_open).start();
  MUSTER_ASSIGN_OR_RETURN(const bool found, query.next());
  return found ? query.integer(0) : 0;
}

base::Result<std::vector<JobKey>> StoreReader::job_keys(Which which) {
  Execution query = (which == Which::kAll ? statements_.all_keys : statements_.open_keys).start();
  query.bind(1, std::int64_t{kMostKeys});
  return collect<JobKey>(query, key_of);
}

base::Result<std::vector<StoredElement>> StoreReader::elements(const base::JobId& array, int first, int limit) {
  MUSTER_ASSIGN_OR_RETURN(const std::int64_t number, number_of(array));
  Execution query = statements_.elements.start();
  query.bind(1, number);
  query.bind(2, std::int64_t{first});
  query.bind(3, bounded(limit));
  return collect<StoredElement>(query, [](const Execution& row) -> base::Result<StoredElement> {
    MUSTER_ASSIGN_OR_RETURN(base::JobId id, stored_id(row, 0));
    const auto state = model::job_state_of(row.integer(2));
    if (!state) {
      return base::data_loss("job {}: stored state {} is invalid; restore a copy of the job store", id.str(),
                             row.integer(2));
    }
    StoredElement element{.id = std::move(id), .index = static_cast<int>(row.integer(1)), .state = *state};
    if (const auto code = row.maybe_integer(3)) element.exit_code = static_cast<int>(*code);
    return element;
  });
}

base::Result<std::vector<std::pair<model::JobState, std::int64_t>>> StoreReader::element_counts(
    const base::JobId& array) {
  using Count = std::pair<model::JobState, std::int64_t>;
  MUSTER_ASSIGN_OR_RETURN(const std::int64_t number, number_of(array));
  Execution query = statements_.element_counts.start();
  query.bind(1, number);
  return collect<Count>(query, [&](const Execution& row) -> base::Result<Count> {
    const auto state = model::job_state_of(row.integer(0));
    if (state) return Count(*state, row.integer(1));
    return base::data_loss("job {}: an element has the invalid state {}; restore a copy of the job store", array.str(),
                           row.integer(0));
  });
}

base::Result<base::JobId> StoreReader::element(const base::JobId& array, int index) {
  MUSTER_ASSIGN_OR_RETURN(const std::int64_t number, number_of(array));
  Execution query = statements_.element.start();
  query.bind(1, number);
  query.bind(2, std::int64_t{index});
  MUSTER_ASSIGN_OR_RETURN(const bool found, query.next());
  if (found) return stored_id(query, 0);
  return base::not_found("element {} of job {} has not started", index, array.str());
}

base::Result<StoredJob> StoreReader::job_of_number(std::int64_t number) {
  Execution query = statements_.job_of_number.start();
  query.bind(1, number);
  MUSTER_ASSIGN_OR_RETURN(const bool found, query.next());
  if (!found) return base::not_found("unknown job number {}", number);
  return job_of(query);
}

base::Result<std::vector<std::string>> StoreReader::rank_hosts(std::int64_t number, int attempt) {
  Execution query = statements_.rank_hosts.start();
  query.bind(1, number);
  query.bind(2, std::int64_t{attempt});
  return collect<std::string>(query, [](const Execution& row) -> base::Result<std::string> { return row.bytes(0); });
}

base::Result<std::vector<StoredJob>> StoreReader::open_jobs(std::int64_t after, int limit) {
  Execution query = statements_.open_jobs_up.start();
  query.bind(1, after);
  query.bind(2, bounded(limit));
  return collect<StoredJob>(query, job_of);
}

base::Result<std::vector<base::JobId>> StoreReader::ended_before(base::WallTime time, int limit) {
  Execution query = statements_.ended.start();
  query.bind(1, std::chrono::duration_cast<std::chrono::microseconds>(time.time_since_epoch()).count());
  query.bind(2, bounded(limit));
  return collect<base::JobId>(query, [](const Execution& row) { return stored_id(row, 0); });
}

base::Result<std::int64_t> StoreReader::number_of(const base::JobId& id) {
  MUSTER_ASSIGN_OR_RETURN(const StoredJob record, job(id));
  return record.number;
}

base::Result<std::vector<StoredEvent>> StoreReader::events(const base::JobId& id, std::uint64_t after, int limit) {
  MUSTER_ASSIGN_OR_RETURN(const std::int64_t number, number_of(id));
  constexpr std::uint64_t kHighest = std::numeric_limits<std::int64_t>::max();
  Execution query = statements_.events.start();
  query.bind(1, number);
  query.bind(2, static_cast<std::int64_t>(std::min(after, kHighest)));
  query.bind(3, id.str());
  query.bind(4, bounded(limit));
  MUSTER_ASSIGN_OR_RETURN(std::vector<StoredEvent> events,
                          collect_events(query, after, static_cast<std::size_t>(bounded(limit))));
  if (events.size() > static_cast<std::size_t>(bounded(limit))) {
    events.erase(events.begin() + bounded(limit), events.end());
  }
  return events;
}

base::Result<std::vector<StoredEvent>> StoreReader::all_events(std::int64_t after, int limit) {
  Execution query = statements_.all_events.start();
  query.bind(1, after);
  query.bind(2, bounded(limit));
  return collect_events(query, 0, static_cast<std::size_t>(bounded(limit)));
}

base::Result<int> StoreReader::rank_count(const base::JobId& id, int attempt) {
  MUSTER_ASSIGN_OR_RETURN(const std::int64_t number, number_of(id));
  Execution query = statements_.rank_count.start();
  query.bind(1, number);
  query.bind(2, std::int64_t{attempt});
  MUSTER_ASSIGN_OR_RETURN(const bool found, query.next());
  return found ? static_cast<int>(query.integer(0)) : 0;
}

base::Result<std::vector<StoredRank>> StoreReader::ranks(const base::JobId& id, int attempt, int first, int limit) {
  MUSTER_ASSIGN_OR_RETURN(const std::int64_t number, number_of(id));
  Execution query = statements_.ranks.start();
  query.bind(1, number);
  query.bind(2, std::int64_t{attempt});
  query.bind(3, std::int64_t{first});
  query.bind(4, bounded(limit));
  return collect<StoredRank>(query, rank_of);
}

base::Result<std::vector<StoredHost>> StoreReader::hosts() {
  Execution query = statements_.hosts.start();
  return collect<StoredHost>(query, [](const Execution& row) -> base::Result<StoredHost> {
    return StoredHost{.name = row.bytes(0),
                      .slots = static_cast<int>(row.integer(1)),
                      .drained = row.integer(2) != 0,
                      .reason = row.bytes(3),
                      .changed = time_of(row.integer(4))};
  });
}

base::Result<std::vector<model::JobDependency>> StoreReader::after(const base::JobId& id) {
  MUSTER_ASSIGN_OR_RETURN(const std::int64_t number, number_of(id));
  Execution query = statements_.after.start();
  query.bind(1, number);
  return collect<model::JobDependency>(query, [](const Execution& row) -> base::Result<model::JobDependency> {
    MUSTER_ASSIGN_OR_RETURN(base::JobId awaited, stored_id(row, 0));
    const bool is_any = row.integer(1) == static_cast<std::int64_t>(model::AfterEnd::kAny);
    return model::JobDependency{std::move(awaited), is_any ? model::AfterEnd::kAny : model::AfterEnd::kOk};
  });
}

base::Result<std::vector<StoredJob>> StoreReader::to_notify(std::int64_t above, int limit) {
  Execution query = statements_.to_notify.start();
  query.bind(1, above);
  query.bind(2, bounded(limit));
  return collect<StoredJob>(query, job_of);
}

base::Result<std::string> StoreReader::content(const Statement& statement, const base::JobId& id) {
  MUSTER_ASSIGN_OR_RETURN(const std::int64_t number, number_of(id));
  Execution query = statement.start();
  query.bind(1, number);
  MUSTER_ASSIGN_OR_RETURN(const bool found, query.next());
  return found ? query.bytes(0) : std::string();
}

base::Result<std::string> StoreReader::spec(const base::JobId& id) {
  return content(statements_.spec, id);
}

base::Result<std::string> StoreReader::environment(const base::JobId& id) {
  return content(statements_.environment, id);
}

base::Result<std::string> StoreReader::recovery(const base::JobId& id) {
  return content(statements_.recovery, id);
}

}  // namespace muster::launcherd::store
