#include "agent/gpus/killed_helpers.h"

#include <poll.h>
#include <sys/wait.h>

#include <algorithm>

#include "agent/proc/proc_table.h"

namespace muster::agent::inline gpus {

void KilledHelpers::take(pid_t killed) {
  Killed& entry = killed_.emplace_back();
  entry.pid = killed;
  entry.end = open_pidfd(killed);
  if (entry.end.valid()) entry.watch = loop_.on_readable(entry.end.get(), [this] { reap(); });
  reap();
}

void KilledHelpers::reap() {
  std::erase_if(killed_, [](const Killed& entry) { return ::waitpid(entry.pid, nullptr, WNOHANG) != 0; });
}

bool KilledHelpers::are_all_gone() {
  reap();
  return killed_.empty();
}

std::vector<pid_t> KilledHelpers::pids() const {
  std::vector<pid_t> pids;
  for (const Killed& entry : killed_) pids.push_back(entry.pid);
  return pids;
}

KilledHelpers::~KilledHelpers() {
  const base::MonotonicTime deadline = std::chrono::steady_clock::now() + kEndPatience;
  for (const Killed& entry : killed_) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    await_end_blocking(entry.pid, std::max(left, std::chrono::milliseconds(0)));
  }
}

void await_end_blocking(pid_t killed, std::chrono::milliseconds patience) {
  const base::UniqueFd end = open_pidfd(killed);
  pollfd event{end.get(), POLLIN, 0};
  if (end.valid()) (void)::poll(&event, 1, static_cast<int>(patience.count()));
  ::waitpid(killed, nullptr, WNOHANG);
}

}  // namespace muster::agent::gpus
