// ReadThread runs queries of the job store on its own thread, one after the other.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "base/gate.h"
#include "base/loop.h"
#include "base/status.h"
#include "launcherd/store/store_reader.h"

namespace muster::launcherd::inline store {

class ReadThread {
 public:
  // Runs on the thread. The task that it returns is posted to the loop.
  using Query = std::function<base::Loop::Task(StoreReader&)>;

  // The loop must outlive the thread.
  static base::Result<std::unique_ptr<ReadThread>> start(StoreReader reader, base::Loop& loop);
  // Finishes the query in progress. Waiting queries never run. No answer runs afterwards, not even a posted one.
  ~ReadThread();
  ReadThread(const ReadThread&) = delete;
  ReadThread& operator=(const ReadThread&) = delete;

  // Any thread. RESOURCE_EXHAUSTED if kMaxQueries are waiting already.
  base::Status put(Query query);

  static constexpr std::size_t kMaxQueries = 4096;

 private:
  ReadThread(StoreReader reader, base::Loop& loop) : loop_(loop), reader_(std::move(reader)) {}

  void run();

  base::Loop& loop_;
  StoreReader reader_;  // used by the thread only

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Query> waiting_;  // guarded by mutex_, like the next member
  bool is_ending_ = false;

  base::Gate gate_;  // declared before the thread, which wraps its answers in this gate
  std::thread thread_;
};

}  // namespace muster::launcherd::store
