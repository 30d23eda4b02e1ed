// A thread for work that waits for disks. It does one piece of work after the other. Each piece returns a function,
// which then runs on the loop.
//
// Thread: call it on the loop thread only. The work runs on the DiskThread's own thread, and reads `stop` there.
//
// Destruction: work that has not begun is dropped. Work that has begun reads `stop` between its steps, and ends. The
// destructor waits kPatience for a thread that hangs in the file system, for example because a server does not answer.
// Then it leaves that thread behind. Such a thread never touches the loop again. It releases what it holds when its
// call returns, or when the process ends.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include "base/loop.h"
#include "base/status.h"

namespace muster::base {

class DiskThread {
 public:
  using Work = std::function<Loop::Task(const std::atomic<bool>& stop)>;
  static constexpr std::chrono::seconds kPatience{1};

  // The work uses `kept`. The thread releases `kept` at its end. RESOURCE_EXHAUSTED if no thread can be started.
  static Result<std::unique_ptr<DiskThread>> start(Loop& loop, std::shared_ptr<void> kept = nullptr);
  // After destruction, no work that was added runs a function on the loop.
  ~DiskThread();
  DiskThread(const DiskThread&) = delete;
  DiskThread& operator=(const DiskThread&) = delete;

  void add(Work work);

 private:
  struct State;
  explicit DiskThread(std::shared_ptr<State> state) : state_(std::move(state)) {}
  static void serve(State& state);

  const std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace muster::base
