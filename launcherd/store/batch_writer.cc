// BatchWriter: commit() runs the transaction, and one apply() function handles each kind of change.
// Read commit and apply_alone first, then the apply functions, then move and move_rank.
#include "launcherd/store/batch_writer.h"

#include <chrono>
#include <iterator>

#include "base/strings.h"
#include "launcherd/store/event_group.h"

namespace muster::launcherd::inline store {
namespace {

using base::Code;

std::int64_t micros(base::WallTime time) {
  return std::chrono::duration_cast<std::chrono::microseconds>(time.time_since_epoch()).count();
}

// True for errors that end the whole transaction. All other errors come from a single batch.
bool is_trouble_of_all(const base::Status& status) {
  return status.code() == Code::kResourceExhausted || status.code() == Code::kUnavailable ||
         status.code() == Code::kDataLoss || status.code() == Code::kInternal;
}

base::Status run(const Statement& statement) {
  return statement.start().run();
}

// Binds the parameters 1 to 9 of the statements that change a rank.
void bind_rank(const RankStep& step, std::int64_t job, Execution& statement) {
  statement.bind(1, job);
  statement.bind(2, std::int64_t{step.attempt});
  statement.bind(3, std::int64_t{step.rank});
  statement.bind(4, static_cast<std::int64_t>(step.to));
  statement.bind(5, step.host);
  statement.bind(6, std::int64_t{step.pid});
  statement.bind(7, std::int64_t{step.exit_code});
  statement.bind(8, std::int64_t{step.signal});
  statement.bind(9, step.detail);
}

base::Status check_length(const std::string& bytes, std::string_view what, const base::JobId& job) {
  if (bytes.size() <= kLongestBlob) return base::ok_status();
  return base::invalid_argument("job {}: its {} has {} bytes, more than the limit of {}", job.str(), what, bytes.size(),
                                kLongestBlob);
}

}  // namespace

base::Result<BatchWriter> BatchWriter::create(Database database) {
  MUSTER_ASSIGN_OR_RETURN(Statements statements, prepare(database));
  return BatchWriter(std::move(database), std::move(statements));
}

base::Result<BatchWriter::Statements> BatchWriter::prepare(Database& database) {
  struct Row {
    Statement Statements::*place;
    const char* sql;
  };
  static constexpr Row kRows[] = {
      {&Statements::begin, "BEGIN IMMEDIATE"},
      {&Statements::commit, "COMMIT"},
      {&Statements::begin_batch, "SAVEPOINT batch"},
      {&Statements::end_batch, "RELEASE batch"},
      {&Statements::insert_job,
       "INSERT INTO jobs (id, request_id, name, priority, state, reason, submitted_us, user, held_by, array, "
       "array_index) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"},
      {&Statements::insert_spec, "INSERT INTO specs VALUES (?, ?)"},
      {&Statements::insert_environment, "INSERT INTO environments VALUES (?, ?)"},
      {&Statements::find_request, "SELECT id FROM jobs WHERE request_id = ?"},
      {&Statements::find_job, "SELECT number, state, last_sequence FROM jobs WHERE id = ?"},
      {&Statements::insert_event,
       "INSERT INTO events (job, sequence, time_us, job_state, message, count) VALUES (?, ?, ?, ?, ?, ?)"},
      {&Statements::count_event, "UPDATE jobs SET last_sequence = ? WHERE number = ?"},
      {&Statements::move_job,
       "UPDATE jobs SET state = ?, reason = ?, attempt = ?, exit_code = ?, started_us = coalesce(?, started_us), "
       "ended_us = ? WHERE number = ?"},
      {&Statements::find_rank, "SELECT state FROM ranks WHERE job = ? AND attempt = ? AND rank = ?"},
      {&Statements::put_rank,
       "INSERT INTO ranks VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET state = excluded.state, "
       "host = excluded.host, pid = excluded.pid, exit_code = excluded.exit_code, signal = excluded.signal, "
       "detail = excluded.detail"},
      {&Statements::start_rank, "INSERT INTO ranks VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"},
      {&Statements::end_rank,
       "UPDATE ranks SET state = ?4, host = ?5, pid = ?6, exit_code = ?7, signal = ?8, detail = ?9 "
       "WHERE job = ?1 AND attempt = ?2 AND rank = ?3 AND state = ?10"},
      {&Statements::insert_dependency, "INSERT INTO dependencies VALUES (?, ?, ?)"},
      {&Statements::delete_dependencies, "DELETE FROM dependencies WHERE job = ?"},
      {&Statements::insert_notification, "INSERT INTO notifications VALUES (?)"},
      {&Statements::delete_notification, "DELETE FROM notifications WHERE job = ?"},
      {&Statements::set_reason, "UPDATE jobs SET reason = ? WHERE number = ?"},
      {&Statements::set_hold, "UPDATE jobs SET held_by = ? WHERE number = ?"},
      {&Statements::set_priority, "UPDATE jobs SET priority = ? WHERE number = ?"},
      {&Statements::set_spec, "UPDATE specs SET content = ? WHERE job = ?"},
      {&Statements::put_recovery,
       "INSERT INTO recoveries VALUES (?, ?) ON CONFLICT DO UPDATE SET content = excluded.content"},
      {&Statements::delete_environment, "DELETE FROM environments WHERE job = ?"},
      {&Statements::delete_recovery, "DELETE FROM recoveries WHERE job = ?"},
      {&Statements::put_host,
       "INSERT INTO hosts VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET slots = excluded.slots, "
       "drained = excluded.drained, reason = excluded.reason, changed_us = excluded.changed_us"},
      {&Statements::delete_host, "DELETE FROM hosts WHERE name = ?"},
      {&Statements::delete_job, "DELETE FROM jobs WHERE number = ?"},
  };
  static_assert(std::size(kRows) * sizeof(Statement) == sizeof(Statements), "each has its SQL");
  Statements all;
  for (const Row& row : kRows) {
    MUSTER_ASSIGN_OR_RETURN(all.*row.place, database.prepare(row.sql));
  }
  return all;
}

std::vector<base::Status> BatchWriter::commit(std::span<const Batch* const> batches) {
  std::vector<base::Status> results;
  base::Status all = undo();
  if (all.ok()) all = run(statements_.begin);
  for (const Batch* const batch : batches) {
    if (!all.ok()) break;
    results.push_back(apply_alone(*batch));
    if (is_trouble_of_all(results.back())) all = results.back();
  }
  if (all.ok()) all = run(statements_.commit);
  if (all.ok()) return results;
  if (const base::Status undone = undo(); !undone.ok()) all = undone.with_context(all.message());
  return std::vector<base::Status>(batches.size(), all);
}

base::Status BatchWriter::undo() {
  return database_.in_transaction() ? database_.run("ROLLBACK") : base::ok_status();
}

base::Status BatchWriter::apply_alone(const Batch& batch) {
  MUSTER_RETURN_IF_ERROR(run(statements_.begin_batch));
  for (const Change& change : batch) {
    const base::Status status = std::visit([this](const auto& each) { return apply(each); }, change);
    if (status.ok()) continue;
    if (!is_trouble_of_all(status)) {
      MUSTER_RETURN_IF_ERROR(database_.run("ROLLBACK TO batch; RELEASE batch"));
    }
    return status;
  }
  return run(statements_.end_batch);
}

base::Status BatchWriter::check_free(const NewJob& job) {
  MUSTER_RETURN_IF_ERROR(check_length(job.spec, "spec", job.id));
  MUSTER_RETURN_IF_ERROR(check_length(job.environment, "environment", job.id));
  if (!job.request_id.empty()) {
    Execution same = statements_.find_request.start();
    same.bind(1, job.request_id);
    MUSTER_ASSIGN_OR_RETURN(const bool taken, same.next());
    if (taken) {
      return base::already_exists("the request '{}' was already accepted as job {}", base::printable(job.request_id),
                                  same.bytes(0));
    }
  }
  const auto same_id = find(job.id);
  if (same_id.ok()) return base::already_exists("job {} exists already: use another id", job.id.str());
  return same_id.status().code() == Code::kNotFound ? base::ok_status() : same_id.status();
}

base::Status BatchWriter::apply(const NewJob& job) {
  MUSTER_RETURN_IF_ERROR(check_free(job));
  std::optional<JobRow> array;
  if (job.element) {
    MUSTER_ASSIGN_OR_RETURN(array, find(job.element->array));
  }
  {
    Execution insert = statements_.insert_job.start();
    insert.bind(1, job.id.str());
    if (!job.request_id.empty()) insert.bind(2, job.request_id);
    insert.bind(3, job.name);
    insert.bind(4, std::int64_t{job.priority});
    insert.bind(5, static_cast<std::int64_t>(model::JobState::kQueued));
    insert.bind(6, job.reason);
    insert.bind(7, micros(job.submitted));
    insert.bind(8, job.user);
    if (job.held_by) insert.bind(9, *job.held_by);
    if (array) {
      insert.bind(10, array->number);
      insert.bind(11, std::int64_t{job.element->index});
    }
    MUSTER_RETURN_IF_ERROR(insert.run());
  }
  const std::int64_t number = database_.last_row();
  Execution spec = statements_.insert_spec.start();
  spec.bind(1, number);
  spec.bind_blob(2, job.spec);
  MUSTER_RETURN_IF_ERROR(spec.run());
  MUSTER_RETURN_IF_ERROR(add_dependencies(number, job.after));
  if (job.notifies) {
    Execution notification = statements_.insert_notification.start();
    notification.bind(1, number);
    MUSTER_RETURN_IF_ERROR(notification.run());
  }
  if (job.environment.empty()) return base::ok_status();
  Execution environment = statements_.insert_environment.start();
  environment.bind(1, number);
  environment.bind_blob(2, job.environment);
  return environment.run();
}

base::Status BatchWriter::add_dependencies(std::int64_t number, const std::vector<model::JobDependency>& after) {
  for (const model::JobDependency& each : after) {
    Execution insert = statements_.insert_dependency.start();
    insert.bind(1, number);
    insert.bind(2, each.job.str());
    insert.bind(3, static_cast<std::int64_t>(each.condition));
    MUSTER_RETURN_IF_ERROR(insert.run());
  }
  return base::ok_status();
}

base::Result<BatchWriter::JobRow> BatchWriter::find(const base::JobId& id) {
  Execution query = statements_.find_job.start();
  query.bind(1, id.str());
  MUSTER_ASSIGN_OR_RETURN(const bool found, query.next());
  if (!found) return base::not_found("unknown job {}", id.str());
  const auto state = model::job_state_of(query.integer(1));
  if (!state)
    return base::data_loss("job {}: stored state {} is invalid; restore a copy of the job store", id.str(),
                           query.integer(1));
  return JobRow{query.integer(0), *state, static_cast<std::uint64_t>(query.integer(2))};
}

base::Status BatchWriter::apply(const NewEvent& event) {
  MUSTER_RETURN_IF_ERROR(check_length(event.message, "event", event.job));
  MUSTER_ASSIGN_OR_RETURN(const JobRow job, find(event.job));
  const auto state = event.job_step ? std::optional(event.job_step->to) : std::nullopt;
  MUSTER_RETURN_IF_ERROR(add_row(job, 1, event.time, state, event.message));
  if (event.rank_step) MUSTER_RETURN_IF_ERROR(move_rank(*event.rank_step, event.job, job));
  return event.job_step ? move(event, job) : base::ok_status();
}

base::Status BatchWriter::apply(const NewEvents& events) {
  if (events.events.empty() || events.events.size() > kMostGrouped) {
    return base::invalid_argument("job {}: {} events in one group are not 1 to {}", events.job.str(),
                                  events.events.size(), kMostGrouped);
  }
  std::string group;
  for (const NewEvents::Event& event : events.events) add_to_group(event.message, group);
  MUSTER_RETURN_IF_ERROR(check_length(group, "group of events", events.job));
  MUSTER_ASSIGN_OR_RETURN(const JobRow job, find(events.job));
  const bool is_one = events.events.size() == 1;
  MUSTER_RETURN_IF_ERROR(
      add_row(job, events.events.size(), events.time, std::nullopt, is_one ? events.events.front().message : group));
  for (const NewEvents::Event& event : events.events) {
    if (event.rank_step) MUSTER_RETURN_IF_ERROR(move_rank(*event.rank_step, events.job, job));
  }
  return base::ok_status();
}

// Adds a row with `count` events.
base::Status BatchWriter::add_row(const JobRow& job, std::size_t count, base::WallTime time,
                                  std::optional<model::JobState> state, std::string_view message) {
  const auto sequence = static_cast<std::int64_t>(job.last_sequence + count);
  {
    Execution insert = statements_.insert_event.start();
    insert.bind(1, job.number);
    insert.bind(2, sequence);
    insert.bind(3, micros(time));
    if (state) insert.bind(4, static_cast<std::int64_t>(*state));
    insert.bind_blob(5, message);
    insert.bind(6, static_cast<std::int64_t>(count));
    MUSTER_RETURN_IF_ERROR(insert.run());
  }
  Execution update = statements_.count_event.start();
  update.bind(1, sequence);
  update.bind(2, job.number);
  return update.run();
}

base::Status BatchWriter::move(const NewEvent& event, const JobRow& job) {
  const JobStep& step = *event.job_step;
  if (!model::can_follow(job.state, step.to)) {
    return base::failed_precondition("job {} is {} and cannot become {}", event.job.str(), model::name_of(job.state),
                                     model::name_of(step.to));
  }
  const bool ends = model::is_final(step.to);
  {
    Execution update = statements_.move_job.start();
    update.bind(1, static_cast<std::int64_t>(step.to));
    update.bind(2, step.reason);
    update.bind(3, std::int64_t{step.attempt});
    update.bind(4, step.exit_code ? std::optional<std::int64_t>(*step.exit_code) : std::nullopt);
    if (step.to == model::JobState::kStarting) update.bind(5, micros(event.time));
    if (ends) update.bind(6, micros(event.time));
    update.bind(7, job.number);
    MUSTER_RETURN_IF_ERROR(update.run());
  }
  return ends ? drop_secrets(job.number) : base::ok_status();
}

base::Status BatchWriter::wipe_log() {
  MUSTER_ASSIGN_OR_RETURN(const bool is_empty, database_.empty_log());
  has_secrets_in_log_ = !is_empty;
  return base::ok_status();
}

base::Status BatchWriter::drop_secrets(std::int64_t number) {
  has_secrets_in_log_ = true;
  for (const Statement* const each : {&statements_.delete_environment, &statements_.delete_recovery}) {
    Execution erase = each->start();
    erase.bind(1, number);
    MUSTER_RETURN_IF_ERROR(erase.run());
  }
  return base::ok_status();
}

// Moves a rank by one statement, if it has the state that ranks have before this step. Returns false if it has another.
base::Result<bool> BatchWriter::move_at_once(const RankStep& step, const JobRow& job) {
  const bool starts = step.to == model::RankState::kRunning;
  const model::RankState from = starts ? model::RankState::kWaiting : model::RankState::kRunning;
  if (!model::can_follow(from, step.to)) return false;
  {
    Execution change = (starts ? statements_.start_rank : statements_.end_rank).start();
    bind_rank(step, job.number, change);
    if (!starts) change.bind(10, static_cast<std::int64_t>(from));
    MUSTER_RETURN_IF_ERROR(change.run());
  }
  return database_.changed_rows() == 1;
}

base::Status BatchWriter::move_rank(const RankStep& step, const base::JobId& id, const JobRow& job) {
  MUSTER_ASSIGN_OR_RETURN(const bool is_moved, move_at_once(step, job));
  if (is_moved) return base::ok_status();
  model::RankState from = model::RankState::kWaiting;
  {
    Execution query = statements_.find_rank.start();
    query.bind(1, job.number);
    query.bind(2, std::int64_t{step.attempt});
    query.bind(3, std::int64_t{step.rank});
    MUSTER_ASSIGN_OR_RETURN(const bool found, query.next());
    if (found) from = model::rank_state_of(query.integer(0)).value_or(model::RankState::kLost);
  }
  if (!model::can_follow(from, step.to)) {
    return base::failed_precondition("job {}: rank {} of attempt {} is {} and cannot become {}", id.str(), step.rank,
                                     step.attempt, model::name_of(from), model::name_of(step.to));
  }
  Execution put = statements_.put_rank.start();
  bind_rank(step, job.number, put);
  return put.run();
}

base::Status BatchWriter::apply(const NewReason& reason) {
  MUSTER_ASSIGN_OR_RETURN(const JobRow job, find(reason.job));
  if (job.state != model::JobState::kQueued) {
    return base::failed_precondition("job {} is {}: it does not wait for a reason", reason.job.str(),
                                     model::name_of(job.state));
  }
  Execution update = statements_.set_reason.start();
  update.bind(1, reason.reason);
  update.bind(2, job.number);
  return update.run();
}

base::Status BatchWriter::apply(const NewHold& hold) {
  MUSTER_ASSIGN_OR_RETURN(const JobRow job, find(hold.job));
  if (job.state != model::JobState::kQueued) {
    return base::failed_precondition("job {} is {}: it no longer waits", hold.job.str(), model::name_of(job.state));
  }
  Execution update = statements_.set_hold.start();
  if (hold.held_by) update.bind(1, *hold.held_by);
  update.bind(2, job.number);
  return update.run();
}

base::Status BatchWriter::apply(const NewAfter& after) {
  MUSTER_ASSIGN_OR_RETURN(const JobRow job, find(after.job));
  if (job.state != model::JobState::kQueued) {
    return base::failed_precondition("job {} is {}: it no longer waits", after.job.str(), model::name_of(job.state));
  }
  {
    Execution erase = statements_.delete_dependencies.start();
    erase.bind(1, job.number);
    MUSTER_RETURN_IF_ERROR(erase.run());
  }
  return add_dependencies(job.number, after.after);
}

base::Status BatchWriter::apply(const NewTerms& terms) {
  MUSTER_ASSIGN_OR_RETURN(const JobRow job, find(terms.job));
  if (model::is_final(job.state)) {
    return base::failed_precondition("job {} has ended: {}", terms.job.str(), model::name_of(job.state));
  }
  if (terms.priority) {
    Execution update = statements_.set_priority.start();
    update.bind(1, std::int64_t{*terms.priority});
    update.bind(2, job.number);
    MUSTER_RETURN_IF_ERROR(update.run());
  }
  if (!terms.spec) return base::ok_status();
  MUSTER_RETURN_IF_ERROR(check_length(*terms.spec, "spec", terms.job));
  Execution update = statements_.set_spec.start();
  update.bind_blob(1, *terms.spec);
  update.bind(2, job.number);
  return update.run();
}

base::Status BatchWriter::apply(const NotifyDone& done) {
  MUSTER_ASSIGN_OR_RETURN(const JobRow job, find(done.job));
  Execution erase = statements_.delete_notification.start();
  erase.bind(1, job.number);
  return erase.run();
}

base::Status BatchWriter::apply(const NewRecovery& recovery) {
  MUSTER_RETURN_IF_ERROR(check_length(recovery.content, "recovery", recovery.job));
  MUSTER_ASSIGN_OR_RETURN(const JobRow job, find(recovery.job));
  if (model::is_final(job.state)) {
    return base::failed_precondition("job {} is {}: there is nothing to recover", recovery.job.str(),
                                     model::name_of(job.state));
  }
  Execution put = statements_.put_recovery.start();
  put.bind(1, job.number);
  put.bind_blob(2, recovery.content);
  return put.run();
}

base::Status BatchWriter::apply(const StoredHost& host) {
  Execution put = statements_.put_host.start();
  put.bind(1, host.name);
  put.bind(2, std::int64_t{host.slots});
  put.bind(3, std::int64_t{host.drained ? 1 : 0});
  put.bind(4, host.reason);
  put.bind(5, micros(host.changed));
  return put.run();
}

base::Status BatchWriter::apply(const ForgetHost& forget) {
  Execution erase = statements_.delete_host.start();
  erase.bind(1, forget.name);
  MUSTER_RETURN_IF_ERROR(erase.run());
  if (database_.changed_rows() == 1) return base::ok_status();
  return base::not_found("unknown host {}", base::printable(forget.name));
}

base::Status BatchWriter::apply(const ForgetJob& forget) {
  MUSTER_ASSIGN_OR_RETURN(const JobRow job, find(forget.job));
  if (!model::is_final(job.state)) {
    return base::failed_precondition("job {} is {}: only jobs that have ended can be removed", forget.job.str(),
                                     model::name_of(job.state));
  }
  Execution erase = statements_.delete_job.start();
  erase.bind(1, job.number);
  return erase.run();
}

}  // namespace muster::launcherd::store
