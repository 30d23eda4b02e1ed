#include "collectives/join/process_watch.h"

#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace muster::collectives::inline join {

void ProcessWatch::add(int rank, pid_t pid) {
  base::UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (process.valid()) {
    const int fd = process.get();
    watched_.insert_or_assign(fd, std::pair{std::move(process), Watched{rank, false}});
  } else if (errno == ESRCH) {
    start_timer(rank);
  }
}

void ProcessWatch::start_timer(int rank) {
  base::UniqueFd timer(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  itimerspec when{};
  when.it_value.tv_nsec = std::chrono::nanoseconds(kGoodbyeTime).count();
  if (!timer.valid() || ::timerfd_settime(timer.get(), 0, &when, nullptr) != 0) return on_ended_(rank);
  const int fd = timer.get();
  watched_.insert_or_assign(fd, std::pair{std::move(timer), Watched{rank, true}});
}

void ProcessWatch::add_polls(std::vector<pollfd>& fds) {
  for (const auto& [fd, watched] : watched_) fds.push_back({fd, POLLIN, 0});
}

bool ProcessWatch::on_ready(int fd) {
  const auto found = watched_.find(fd);
  if (found == watched_.end()) return true;
  const Watched watched = found->second.second;
  watched_.erase(found);
  if (watched.has_ended) {
    on_ended_(watched.rank);
  } else {
    start_timer(watched.rank);
  }
  return !watched_.empty();
}

}  // namespace muster::collectives::join
