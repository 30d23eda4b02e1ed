// The thread that writes into the job store: it takes all batches that wait, commits them as one transaction, and posts
// what came of each to the loop. While a commit is under way the next batches gather, so the disk sets the pace.
//
// A batch that is kept records what has happened, so it cannot be refused. While the store cannot be written (the disk
// is full or fails, another process has the lock) it waits in memory and is tried again, in its order, with growing
// pauses. Batches that may be refused are refused as long as something kept waits.
//
// After a job has ended the thread empties the write-ahead log when it has nothing else to do: frames there hold the
// job's secrets.
//
// A batch that breaks a transaction (INTERNAL, DATA_LOSS) is tried alone, so that it costs no other batch.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/loop.h"
#include "base/status.h"
#include "launcherd/store/batch_writer.h"
#include "launcherd/store/records.h"

namespace muster::launcherd::inline store {

struct PendingBatch {
  Batch batch;
  std::function<void(base::Status)> committed;  // on the loop
  bool keep = false;                            // until the store can be written
  std::size_t bytes = 0;                        // about what it takes in memory
};

class WriteThread {
 public:
  // The loop must outlive it.
  static base::Result<std::unique_ptr<WriteThread>> start(BatchWriter writer, base::Loop& loop);
  // Commits what waits, tries what is kept once more, and posts the results.
  ~WriteThread();
  WriteThread(const WriteThread&) = delete;
  WriteThread& operator=(const WriteThread&) = delete;

  // Any thread. When more than kMostBytes wait in memory a batch is answered RESOURCE_EXHAUSTED; one that is kept, when
  // more than kMostKeptBytes wait.
  void put(std::vector<PendingBatch> batches);

  static constexpr std::size_t kMostBytes = std::size_t{64} << 20;
  static constexpr std::size_t kMostKeptBytes = std::size_t{1} << 30;

 private:
  WriteThread(BatchWriter writer, base::Loop& loop) : loop_(loop), writer_(std::move(writer)) {}

  void run();
  bool gather(std::vector<PendingBatch>& fresh);
  void commit(std::vector<PendingBatch> round);
  void hold(std::vector<PendingBatch> fresh);
  void retry_kept();
  void put_off(const base::Status& why, std::chrono::milliseconds pause);
  void wipe_if_due();
  void answer(PendingBatch& pending, base::Status status);
  std::vector<base::Status> write(const std::vector<PendingBatch>& round);

  base::Loop& loop_;
  BatchWriter writer_;                 // used by the thread alone, as the next five
  std::deque<PendingBatch> kept_;      // that could not be written yet
  base::Status trouble_;               // why
  std::chrono::milliseconds pause_{};  // between the last two tries
  base::MonotonicTime retry_at_{};     // of what is kept
  base::MonotonicTime wipe_at_{};      // of secrets in the log

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<PendingBatch> waiting_;  // guarded by mutex_, as is all below
  std::size_t bytes_ = 0;              // of all that is not answered
  bool is_ending_ = false;

  std::thread thread_;
};

}  // namespace muster::launcherd::store
