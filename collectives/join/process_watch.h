// Notices the ends of processes of this host, for worlds without an agent. A connection alone does not show that its
// process has ended: a forked child, such as a worker of a DataLoader, may hold it open.
//
// Thread: add() before the watch is passed to a Service; afterwards the service thread.
// Errors: a process that cannot be watched (old kernel, no descriptor left) is not reported. Its connections still are.
//
//   auto watch = std::make_shared<ProcessWatch>([](int rank) { … });
//   watch->add(3, pid);
//   service.watch(std::move(watch));
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>

#include "base/unique_fd.h"
#include "collectives/join/service.h"

namespace muster::collectives::inline join {

class ProcessWatch final : public Polled {
 public:
  // The time between the end of a process and its report. A process that has left the world in good order has sent a
  // goodbye, which arrives within this time.
  static constexpr std::chrono::milliseconds kGoodbyeTime{30};

  // `on_ended` is called once for each rank whose process has ended.
  explicit ProcessWatch(std::function<void(int rank)> on_ended) : on_ended_(std::move(on_ended)) {}

  // `pid` is a process of this host and pid namespace. It may have ended.
  void add(int rank, pid_t pid);

  void add_polls(std::vector<pollfd>& fds) override;
  bool on_ready(int fd) override;

 private:
  struct Watched {
    int rank = 0;
    bool has_ended = false;  // true: the descriptor is the timer of kGoodbyeTime, and no longer the process
  };
  void start_timer(int rank);

  const std::function<void(int rank)> on_ended_;
  std::map<int, std::pair<base::UniqueFd, Watched>> watched_;  // by descriptor
};

}  // namespace muster::collectives::join
