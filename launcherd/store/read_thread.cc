#include "launcherd/store/read_thread.h"

#include <utility>

#include "base/thread.h"

namespace muster::launcherd::inline store {

base::Result<std::unique_ptr<ReadThread>> ReadThread::start(StoreReader reader, base::Loop& loop) {
  std::unique_ptr<ReadThread> made(new ReadThread(std::move(reader), loop));
  MUSTER_ASSIGN_OR_RETURN(made->thread_, base::start_thread([self = made.get()] { self->run(); }));
  return made;
}

ReadThread::~ReadThread() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

base::Status ReadThread::put(Query query) {
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() >= kMaxQueries) {
      return base::resource_exhausted("{} queries of the job store are waiting already: ask again later, or less often",
                                      kMaxQueries);
    }
    waiting_.push_back(std::move(query));
  }
  changed_.notify_one();
  return base::ok_status();
}

void ReadThread::run() {
  while (true) {
    Query query;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return is_ending_ || !waiting_.empty(); });
      if (is_ending_) return;
      query = std::move(waiting_.front());
      waiting_.pop_front();
    }
    loop_.post(gate_.wrap(query(reader_)));
  }
}

}  // namespace muster::launcherd::store
