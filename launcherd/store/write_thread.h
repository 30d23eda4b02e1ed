// The thread that writes into the job store: it takes all batches that wait, commits them as one transaction, and posts
// what came of each to the loop. While a commit is under way the next batches gather, so the disk sets the pace.
//
// A batch that is kept is tried again, in its order, for as long as the disk is full: what it tells has happened and
// cannot be refused. What may be refused is, as long as something kept waits.
#pragma once

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

namespace muster::launcherd {

struct PendingBatch {
  Batch batch;
  std::function<void(base::Status)> committed;  // on the loop
  bool keep = false;                            // until there is room
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

  // Any thread. Beyond kMostBytes in memory a batch is answered RESOURCE_EXHAUSTED.
  void put(std::vector<PendingBatch> batches);

  static constexpr std::size_t kMostBytes = std::size_t{64} << 20;

 private:
  WriteThread(BatchWriter writer, base::Loop& loop) : loop_(loop), writer_(std::move(writer)) {}

  void run();
  bool gather(std::vector<PendingBatch>& fresh);
  void commit(std::vector<PendingBatch> round);
  void hold(std::vector<PendingBatch> fresh);
  void retry_kept();
  void answer(PendingBatch& pending, base::Status status);
  std::vector<base::Status> write(const std::vector<PendingBatch>& round);

  base::Loop& loop_;
  BatchWriter writer_;              // used by the thread alone, as the next three
  std::deque<PendingBatch> kept_;   // for which there was no room
  base::Status full_;               // what the disk said
  base::MonotonicTime retry_at_{};  // of what is kept

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<PendingBatch> waiting_;  // guarded by mutex_, as is all below
  std::size_t bytes_ = 0;              // of all that is not answered
  bool is_ending_ = false;

  std::thread thread_;
};

}  // namespace muster::launcherd
