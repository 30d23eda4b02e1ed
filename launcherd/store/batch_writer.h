// Writes batches into the job store: many in one transaction, each of them whole or not at all. Used by one thread.
#pragma once

#include <span>
#include <vector>

#include "base/status.h"
#include "launcherd/store/records.h"
#include "launcherd/store/sqlite.h"

namespace muster::launcherd::inline store {

class BatchWriter {
 public:
  // `database` is one of open_store().
  static base::Result<BatchWriter> create(Database database);

  // One status a batch, in their order. A batch that is wrong in itself (its job does not exist, its state does not
  // follow, its request id is taken) leaves the others alone. When the disk cannot take them all fail together with its
  // status, and nothing of them is there; only where the disk failed in the middle of a commit (UNAVAILABLE) may a
  // crash that follows at once bring them back.
  //
  // Codes of a wrong batch: ALREADY_EXISTS (id or request id), NOT_FOUND (job), FAILED_PRECONDITION (its state does not
  // allow the step; a job that has not ended is not forgotten), INVALID_ARGUMENT (a value is too long).
  std::vector<base::Status> commit(std::span<const Batch* const> batches);

  // Whether secrets of a job that has ended may still be in the write-ahead log.
  bool has_secrets_in_log() const { return has_secrets_in_log_; }
  // Empties the log. Errors and a reader in the way leave it as it is: try again later.
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
    Statement set_reason, put_recovery, delete_environment, delete_recovery;
    Statement put_host, delete_host, delete_job;
  };

  BatchWriter(Database database, Statements statements)
      : database_(std::move(database)), statements_(std::move(statements)) {}

  static base::Result<Statements> prepare(Database& database);

  base::Status undo();
  base::Status apply_alone(const Batch& batch);
  base::Status apply(const NewJob& job);
  base::Status apply(const NewEvent& event);
  base::Status apply(const NewReason& reason);
  base::Status apply(const NewRecovery& recovery);
  base::Status apply(const StoredHost& host);
  base::Status apply(const ForgetHost& forget);
  base::Status apply(const ForgetJob& forget);

  base::Result<JobRow> find(const base::JobId& id);
  base::Status check_free(const NewJob& job);
  base::Status move(const NewEvent& event, const JobRow& job);
  base::Status move_rank(const RankStep& step, const base::JobId& id, const JobRow& job);
  base::Status drop_secrets(std::int64_t number);

  Database database_;  // before its statements
  Statements statements_;
  bool has_secrets_in_log_ = false;
};

}  // namespace muster::launcherd::store
