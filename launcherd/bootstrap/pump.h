// One thread that carries bytes and watches ends for everything that was started: libssh sessions, `ssh` processes,
// local agents. An item is served by the pump's thread only, from add() until it says that it is done.
//
//   Pump pump;
//   pump.add(std::make_unique<…>(…));
#pragma once

#include <poll.h>

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "launcherd/bootstrap/waiter.h"

namespace muster::launcherd::inline bootstrap {

class PumpItem {
 public:
  static constexpr std::size_t kFds = 3;
  virtual ~PumpItem() = default;
  virtual void prepare(std::span<pollfd, kFds> fds) = 0;      // what to wait for; fd -1: nothing
  virtual bool serve(std::span<const pollfd, kFds> fds) = 0;  // false: done, destroy it
  virtual std::optional<base::MonotonicTime> deadline() const { return std::nullopt; }  // serve it then, too
  virtual void ask_to_end() {}  // the pump is being destroyed: begin what the destructor finishes
};

class Pump {
 public:
  Pump() = default;
  ~Pump();  // joins the thread, then destroys the items
  // Any thread. RESOURCE_EXHAUSTED: no thread or descriptor can be had, the item is destroyed.
  base::Status add(std::unique_ptr<PumpItem> item);
  // Any thread: a deadline() may have changed.
  void wake() { wake_.cancel(); }

 private:
  void run();
  void take_new_items();

  std::mutex mutex_;
  std::vector<std::unique_ptr<PumpItem>> new_items_;  // guarded by mutex_
  std::thread thread_;                                // guarded by mutex_ until the destructor
  bool is_stopping_ = false;                          // guarded by mutex_
  CancelSource wake_;
  std::vector<std::unique_ptr<PumpItem>> items_;  // of the thread
};

}  // namespace muster::launcherd::bootstrap
