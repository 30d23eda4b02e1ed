// BatchWriter writes batches into the job store. One transaction holds many batches. Each batch is written whole or not
// at all.
// Thread: one.
#pragma once

#include <span>
#include <vector>

#include "base/status.h"
#include "launcherd/store/records.h"
#include "launcherd/store/sqlite.h"

namespace muster::launcherd::inline store {

class BatchWriter {
 public:
  // `database` must come from open_store().
  static base::Result<BatchWriter> create(Database database);

  // Returns one status per batch, in order. An invalid batch (see below) does not affect the others. If the disk cannot
  // store the transaction, all batches fail with the disk's status, and none is stored. One exception: if the disk
  // fails during a commit (UNAVAILABLE) and a crash follows, the batches may be stored after all.
  //
  // Errors of an invalid batch:
  //   ALREADY_EXISTS       the id or request id is used already
  //   NOT_FOUND            the job is unknown
  //   FAILED_PRECONDITION  the job's state does not allow the step, or a job to forget has not ended
  //   INVALID_ARGUMENT     a value is too long
  std::vector<base::Status> commit(std::span<const Batch* const> batches);

  // True if secrets of an ended job may still be in the write-ahead log.
  bool has_secrets_in_log() const { return has_secrets_in_log_; }
  // Empties the log. After an error, or if a reader blocks it, the log stays as it is, so try again later.
  base::Status wipe_log();

 private:
  struct JobRow {
    std::int64_t number = 0;
    model::JobState state{};
    std::uint64_t last_sequence = 0;
  };
  struct Statements {
    Statement begin, commit, begin_batch, end_batch;
    Statement insert_job, insert_spec, insert_environment, find_request;
    Statement find_job, insert_event, count_event, move_job, find_rank, put_rank;
    Statement start_rank, end_rank;
    Statement insert_dependency, delete_dependencies, insert_notification, delete_notification;
    Statement set_reason, set_hold, set_priority, set_spec, put_recovery, delete_environment, delete_recovery;
    Statement put_host, delete_host, delete_job;
  };

  BatchWriter(Database database, Statements statements)
      : database_(std::move(database)), statements_(std::move(statements)) {}

  static base::Result<Statements> prepare(Database& database);

  base::Status undo();
  base::Status apply_alone(const Batch& batch);
  base::Status apply(const NewJob& job);
  base::Status apply(const NewEvent& event);
  base::Status apply(const NewEvents& events);
  base::Status apply(const NewReason& reason);
  base::Status apply(const NewHold& hold);
  base::Status apply(const NewAfter& after);
  base::Status apply(const NewTerms& terms);
  base::Status apply(const NotifyDone& done);
  base::Status apply(const NewRecovery& recovery);
  base::Status apply(const StoredHost& host);
  base::Status apply(const ForgetHost& forget);
  base::Status apply(const ForgetJob& forget);

  base::Result<JobRow> find(const base::JobId& id);
  base::Status add_dependencies(std::int64_t number, const std::vector<model::JobDependency>& after);
  base::Status check_free(const NewJob& job);
  base::Status move(const NewEvent& event, const JobRow& job);
  base::Status add_row(const JobRow& job, std::size_t count, base::WallTime time, std::optional<model::JobState> state,
                       std::string_view message);
  base::Status move_rank(const RankStep& step, const base::JobId& id, const JobRow& job);
  base::Result<bool> move_at_once(const RankStep& step, const JobRow& job);
  base::Status drop_secrets(std::int64_t number);

  Database database_;  // precedes its statements, so that it is destroyed after them
  Statements statements_;
  bool has_secrets_in_log_ = false;
};

}  // namespace muster::launcherd::store
