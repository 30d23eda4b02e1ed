// The jobs of a launcherd on its disk: every change is an event in an atomic batch, and the state of jobs and ranks is
// what the events made of it. SQLite does its work on two threads of the store's own, one that writes and one that
// reads; the loop only hands over and is called back.
//
// Made, used and destroyed on the loop thread, inside the loop's and the StateDirectory's lives. The batches of one
// turn of the loop are committed together; an ok means that the batch is on the disk, in the order of the calls. After
// an error the store is as if the batch had never been, and later batches are tried anew.
//
//   MUSTER_ASSIGN_OR_RETURN(const auto store, JobStore::open(directory.database(), loop));
//   store->append({NewJob{...}}, [=](base::Status status) { answer(status); });             // Submit: may be refused
//   store->record({NewEvent{...}}, [](base::Status) {});                                    // a rank ended: may not
//   store->read<StoredJob>([=](StoreReader& r) { return r.job(id); }, [=](base::Result<StoredJob> job) { ... });
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

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

  // Blocks: makes, checks and migrates the file (schema.h, whose errors these are). For what must be known before the
  // loop runs (jobs to recover) make a StoreReader of one's own.
  static base::Result<std::unique_ptr<JobStore>> open(const std::string& path, base::Loop& loop);
  // Blocks until all batches are written or refused; their calls are posted.
  ~JobStore();
  JobStore(const JobStore&) = delete;
  JobStore& operator=(const JobStore&) = delete;

  // Errors are those of BatchWriter::commit; RESOURCE_EXHAUSTED also when too much waits. Never calls back before it
  // returns.
  void append(Batch batch, Committed committed);
  // The same for what has happened and cannot be refused: while the disk is full it waits in memory (at most
  // WriteThread::kMostBytes with all others; beyond that RESOURCE_EXHAUSTED).
  void record(Batch batch, Committed committed);

  // Asks on the reading thread and answers on the loop, not after the store's end. What the question captures must be
  // its own. RESOURCE_EXHAUSTED: too many wait.
  template <typename T>
  void read(std::function<base::Result<T>(StoreReader&)> question, std::function<void(base::Result<T>)> answer) {
    ask(
        [question = std::move(question), answer](StoreReader& reader) -> base::Loop::Task {
          return [answer, result = question(reader)]() mutable { answer(std::move(result)); };
        },
        [answer](base::Status status) { answer(std::move(status)); });
  }

 private:
  JobStore(base::Loop& loop, std::unique_ptr<WriteThread> writer, std::unique_ptr<ReadThread> reader);

  void put(Batch batch, Committed committed, bool keep);
  void flush();
  void ask(ReadThread::Question question, Committed refused);

  base::Loop& loop_;
  std::vector<PendingBatch> turn_;  // of this turn of the loop
  std::unique_ptr<WriteThread> writer_;
  std::unique_ptr<ReadThread> reader_;
  std::shared_ptr<bool> is_alive_;  // posts outlive the store
};

}  // namespace muster::launcherd::store
