// WriteThread writes into the job store on its own thread. It takes all waiting batches, commits them as one
// transaction, and posts each result to the loop. Batches that arrive during a commit form the next transaction.
//
// A batch with `keep` records what has happened, so it cannot be refused. It waits in memory while the store cannot be
// written: the disk is full or fails, or another process has the lock. The thread tries it again, in order, with
// growing pauses. While kept batches wait, the thread refuses other batches.
//
// The write-ahead log may hold secrets of ended jobs. So the thread empties the log when it has no other work.
//
// If a batch breaks a transaction (INTERNAL, DATA_LOSS), the thread tries each batch alone, so that the others
// survive.
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
  std::function<void(base::Status)> committed;  // called on the loop
  bool keep = false;                            // true if the batch must wait until the store can be written
  std::size_t bytes = 0;                        // approximate size in memory
};

class WriteThread {
 public:
  // The loop must outlive the thread.
  static base::Result<std::unique_ptr<WriteThread>> start(BatchWriter writer, base::Loop& loop);
  // Commits waiting batches, tries kept ones once more, and posts the results.
  ~WriteThread();
  WriteThread(const WriteThread&) = delete;
  WriteThread& operator=(const WriteThread&) = delete;

  // Any thread. A batch gets RESOURCE_EXHAUSTED if more than kMostBytes wait in memory. For kept batches the limit is
  // kMostKeptBytes.
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
  BatchWriter writer_;                 // used by the thread only, like the next five members
  std::deque<PendingBatch> kept_;      // batches that could not be written yet
  base::Status trouble_;               // why kept_ could not be written
  std::chrono::milliseconds pause_{};  // time between the last two tries
  base::MonotonicTime retry_at_{};     // when to try the kept batches again
  base::MonotonicTime wipe_at_{};      // when to remove secrets from the log

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<PendingBatch> waiting_;  // guarded by mutex_, like all members below
  std::size_t bytes_ = 0;              // size of all batches without a result
  bool is_ending_ = false;

  std::thread thread_;
};

}  // namespace muster::launcherd::store
