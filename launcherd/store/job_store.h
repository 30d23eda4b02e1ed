// JobStore keeps launcherd's jobs on disk. Every change is an event in an atomic batch. The events determine the state
// of jobs and ranks. The store runs SQLite on two threads of its own: one writes, the other reads. The loop only
// passes work to them and gets callbacks.
//
// Thread: created, used and destroyed on the loop thread. Owner: the loop and the StateDirectory must outlive the
// store.
// Batches of one turn of the loop are committed together, in the order of the calls. OK means that the batch is on the
// disk.
// Errors: after an error the batch has no effect. The store still tries later batches.
//
// Example:
//   MUSTER_ASSIGN_OR_RETURN(const auto store, JobStore::open(directory.database(), loop));
//   store->append({NewJob{...}}, [=](base::Status status) { answer(status); });             // Submit: may be refused
//   store->record({NewEvent{...}}, [](base::Status) {});                                    // a rank ended: may not
//   store->read<StoredJob>([=](StoreReader& r) { return r.job(id); }, [=](base::Result<StoredJob> job) { ... });
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/gate.h"
#include "base/loop.h"
#include "base/status.h"
#include "launcherd/store/read_thread.h"
#include "launcherd/store/records.h"
#include "launcherd/store/store_reader.h"
#include "launcherd/store/write_thread.h"

namespace muster::launcherd::inline store {

class JobStore {
 public:
  using Committed = std::function<void(base::Status)>;

  // Blocks: creates, checks and migrates the file. Errors are those of schema.h. To query the store before the loop
  // runs, for example for jobs to recover, create a separate StoreReader.
  static base::Result<std::unique_ptr<JobStore>> open(const std::string& path, base::Loop& loop);
  // Blocks until all batches are written or refused. Posts their callbacks.
  ~JobStore();
  JobStore(const JobStore&) = delete;
  JobStore& operator=(const JobStore&) = delete;

  // Errors are those of BatchWriter::commit. RESOURCE_EXHAUSTED also if too many changes wait. Never calls back before
  // it returns.
  void append(Batch batch, Committed committed);
  // Does the same as append(), for changes that have happened and so cannot be refused. While the disk is full, the
  // batch waits in memory. RESOURCE_EXHAUSTED if all such batches need more than WriteThread::kMostKeptBytes.
  void record(Batch batch, Committed committed);

  // Runs `query` on the reading thread and `answer` on the loop. No answer runs after the store's destruction.
  // The query must own what it captures. RESOURCE_EXHAUSTED if too many queries wait.
  template <typename T>
  void read(std::function<base::Result<T>(StoreReader&)> query, std::function<void(base::Result<T>)> answer) {
    ask(
        [query = std::move(query), answer](StoreReader& reader) -> base::Loop::Task {
          return [answer, result = query(reader)]() mutable { answer(std::move(result)); };
        },
        [answer](base::Status status) { answer(std::move(status)); });
  }

 private:
  JobStore(base::Loop& loop, std::unique_ptr<WriteThread> writer, std::unique_ptr<ReadThread> reader);

  void put(Batch batch, Committed committed, bool keep);
  void flush();
  void ask(ReadThread::Query query, Committed refused);

  base::Loop& loop_;
  std::vector<PendingBatch> turn_;  // batches of this turn of the loop
  std::unique_ptr<WriteThread> writer_;
  std::unique_ptr<ReadThread> reader_;
  base::Gate gate_;
};

}  // namespace muster::launcherd::store
