#include "collectives/call/worker.h"

#include <pthread.h>

#include <csignal>
#include <new>
#include <utility>

#include "base/thread.h"

namespace muster::collectives::inline call {
namespace {

base::Status run_one(const Worker::Work& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return {base::Code::kResourceExhausted, "out of memory for an asynchronous operation"};
  }
}

}  // namespace

void Worker::finish() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::shared_ptr<Request> Worker::submit(Work work) {
  auto request = std::make_shared<Request>();
  const std::lock_guard lock(mutex_);
  if (!thread_.joinable()) {
    auto started = base::start_thread([this] { run(); });
    if (!started.ok()) {
      request->finish(started.status());
      return request;
    }
    thread_ = std::move(*started);
  }
  pending_.fetch_add(1, std::memory_order_acq_rel);
  queue_.push_back({std::move(work), request});
  changed_.notify_one();
  return request;
}

void Worker::run() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);  // signals belong to the program's own threads
  running_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    Item item = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    base::Status status = run_one(item.work);
    // Destroy the work without holding the lock, because destroying may take long and submit() needs the lock.
    item.work = nullptr;
    pending_.fetch_sub(1, std::memory_order_acq_rel);
    item.request->finish(std::move(status));
    lock.lock();
  }
}

}  // namespace muster::collectives::call
