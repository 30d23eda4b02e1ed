// The loop of the one thread that owns a process's mutable state: a thin class over asio's io_context.
//
// Thread: only post() and stop() may be called from any thread; the rest is for the loop thread. Other threads post a
// closure and leave. Handlers must not throw and must not block.
// Destruction: destroys pending handlers without running them.
//
//   Loop loop;
//   Timer timer = loop.after(5s, [&] { give_up(); });   // cancelled when `timer` is destroyed
//   loop.run();                                          // until stop()
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include "base/clock.h"

namespace boost::asio {
class io_context;
}

namespace muster::base {

// Cancels its callback when it is destroyed or reassigned. An empty Timer does nothing.
class Timer {
 public:
  Timer() = default;
  explicit Timer(std::shared_ptr<void> state) : state_(std::move(state)) {}
  void cancel() { state_.reset(); }
  bool armed() const { return state_ != nullptr; }

 private:
  std::shared_ptr<void> state_;
};

class Loop {
 public:
  using Task = std::function<void()>;

  Loop();
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  void run();            // the calling thread becomes the loop thread until stop()
  void stop();           // any thread
  void post(Task task);  // any thread
  bool inside() const;   // on the loop thread (or before run())
  void assert_inside() const;

  Timer after(Duration delay, Task task);
  Timer every(Duration period, Task task);  // first after one period
  // Calls `task` each time `fd` is readable, until the returned handle is destroyed. The caller owns `fd`, which must
  // outlive the handle. The call never fails. While the process has no descriptor for the watch, the loop polls every
  // 20 ms.
  Timer on_readable(int fd, Task task);

  // Does the same as on_readable(), but each time `fd` accepts more bytes or its reader has gone.
  Timer on_writable(int fd, Task task);

  boost::asio::io_context& context() { return *context_; }

 private:
  std::unique_ptr<boost::asio::io_context> context_;
  std::thread::id thread_;
};

}  // namespace muster::base
