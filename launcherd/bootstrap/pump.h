// Pump is one thread that serves everything a bootstrap started: libssh sessions, `ssh` processes and local agents. It
// carries their bytes and notices their end.
// Thread: only the pump's thread serves an item, from add() until serve() returns false.
//
// Example:
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
  virtual void prepare(std::span<pollfd, kFds> fds) = 0;      // sets what to wait for; fd -1 means nothing
  virtual bool serve(std::span<const pollfd, kFds> fds) = 0;  // false if the item is done; the pump then destroys it
  // Returns a time at which the pump must call serve(), too. nullopt if there is none.
  virtual std::optional<base::MonotonicTime> deadline() const { return std::nullopt; }
  virtual void ask_to_end() {}  // the pump is being destroyed: start a shutdown, which the destructor completes
};

class Pump {
 public:
  Pump() = default;
  ~Pump();  // joins the thread, then destroys the items
  // Any thread. RESOURCE_EXHAUSTED if no thread or descriptor is available; the item is then destroyed.
  base::Status add(std::unique_ptr<PumpItem> item);
  // Any thread. Call it if the result of a deadline() may have changed.
  void wake() { wake_.cancel(); }

 private:
  void run();
  void start_new_items();

  std::mutex mutex_;
  std::vector<std::unique_ptr<PumpItem>> new_items_;  // guarded by mutex_
  std::thread thread_;                                // guarded by mutex_ until the destructor
  bool is_stopping_ = false;                          // guarded by mutex_
  CancelSource wake_;
  std::vector<std::unique_ptr<PumpItem>> items_;  // used by the pump's thread only
};

}  // namespace muster::launcherd::bootstrap
