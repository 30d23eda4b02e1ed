#include "base/disk_thread.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

#include "base/gate.h"
#include "base/thread.h"

namespace muster::base {

// Shared with the thread, because the thread may outlive the DiskThread.
struct DiskThread::State {
  std::mutex mutex{};
  std::condition_variable wake{};
  std::condition_variable over{};
  std::deque<Work> work{};
  std::shared_ptr<void> kept{};
  Gate gate{};           // closed when the DiskThread is destroyed; guarded by mutex
  Loop* loop = nullptr;  // valid until `stop`
  std::atomic<bool> stop = false;
  bool is_over = false;
};

Result<std::unique_ptr<DiskThread>> DiskThread::start(Loop& loop, std::shared_ptr<void> kept) {
  auto state = std::make_shared<State>();
  state->kept = std::move(kept);
  state->loop = &loop;
  std::unique_ptr<DiskThread> disk(new DiskThread(state));
  auto thread = start_thread([state] { serve(*state); });
  if (!thread.ok()) {
    const std::lock_guard lock(state->mutex);
    state->is_over = true;
    return thread.status();
  }
  disk->thread_ = std::move(*thread);
  return disk;
}

DiskThread::~DiskThread() {
  std::unique_lock lock(state_->mutex);
  state_->stop = true;
  state_->loop = nullptr;
  state_->gate.close();
  state_->wake.notify_one();
  const bool is_over = state_->over.wait_for(lock, kPatience, [this] { return state_->is_over; });
  lock.unlock();
  if (!thread_.joinable()) return;
  if (is_over) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

void DiskThread::add(Work work) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->work.push_back(std::move(work));
  }
  state_->wake.notify_one();
}

void DiskThread::serve(State& state) {
  std::unique_lock lock(state.mutex);
  while (true) {
    state.wake.wait(lock, [&] { return state.stop || !state.work.empty(); });
    if (state.stop) break;
    Work work = std::move(state.work.front());
    state.work.pop_front();
    lock.unlock();
    Loop::Task task = work(state.stop);
    work = nullptr;
    lock.lock();
    if (state.stop) break;
    state.loop->post(state.gate.wrap(std::move(task)));
  }
  std::deque<Work> forgotten = std::exchange(state.work, {});
  std::shared_ptr<void> kept = std::exchange(state.kept, nullptr);
  lock.unlock();
  forgotten.clear();
  kept.reset();
  lock.lock();
  state.is_over = true;
  state.over.notify_one();
}

}  // namespace muster::base
