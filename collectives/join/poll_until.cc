#include "collectives/join/poll_until.h"

#include <poll.h>

#include <algorithm>

namespace muster::collectives::inline join {

using std::chrono::milliseconds;

base::MonotonicTime end_of(milliseconds deadline) {
  constexpr std::chrono::hours kEver{24 * 365};
  return std::chrono::steady_clock::now() + std::min<milliseconds>(deadline, kEver);
}

bool poll_until(int fd, short events, base::MonotonicTime end) {
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(end - std::chrono::steady_clock::now()).count();
    pollfd slot{fd, events, 0};
    const int ready = ::poll(&slot, 1, static_cast<int>(std::clamp<long>(left, 0, 60'000)));
    if (ready > 0) return true;
    if (ready == 0 && left <= 0) return false;
  }
}

}  // namespace muster::collectives::join
