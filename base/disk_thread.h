// A thread for work that waits for disks, one piece of it after the other; what each returns runs on the loop. Loop
// thread only, but for `stop`.
//
// The end: work that has not begun is forgotten, and what is under way is told by `stop`, which it looks at between its
// steps. A thread that hangs in the file system (a server that does not answer) is waited for kPatience and then left
// behind: it never touches the loop again, and lets go of what it holds when its call comes back, or with the process.
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

  // `kept`: what the work uses. It is let go on the thread, at its end. RESOURCE_EXHAUSTED: there is no thread.
  static Result<std::unique_ptr<DiskThread>> start(Loop& loop, std::shared_ptr<void> kept = nullptr);
  // Nothing that was added is called after it on the loop.
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
