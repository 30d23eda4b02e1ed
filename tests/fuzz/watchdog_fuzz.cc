// Feeds bytes to the parser and the timers of torch's watchdog. The requests must not depend on the pieces in which the
// bytes arrive, the parser must keep one line at most, and the timers must stay within their limits.
#include <cmath>
#include <cstdint>
#include <cstdlib>

#include "agent/job/watchdog_request.h"
#include "agent/job/watchdog_timers.h"

namespace {

using namespace muster::agent;

std::vector<WatchdogRequest> read_in_pieces(std::string_view bytes, std::size_t piece) {
  WatchdogLines lines;
  std::vector<WatchdogRequest> requests;
  while (!bytes.empty()) {
    const std::string_view head = bytes.substr(0, piece);
    bytes.remove_prefix(head.size());
    lines.append(head, [&](std::string_view line) {
      if (line.size() > kMaxWatchdogLine || line.find('\n') != std::string_view::npos) std::abort();
      const auto request = parse_watchdog_request(line);
      if (request.ok()) requests.push_back(*request);
    });
  }
  return requests;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::vector<WatchdogRequest> requests = read_in_pieces(bytes, 7);
  if (read_in_pieces(bytes, 1) != requests || read_in_pieces(bytes, size + 1) != requests) std::abort();
  WatchdogTimers timers;
  for (const WatchdogRequest& request : requests) {
    if (request.pid <= 0 || request.signal > 64 || !std::isfinite(request.expiration_time)) std::abort();
    timers.apply(request);
    if (timers.size() > WatchdogTimers::kMaxTimers) std::abort();
  }
  while (const auto next = timers.next()) {
    const std::size_t before = timers.size();
    for (const ExpiredTimer& expired : timers.take_expired(*next)) {
      if (expired.signal <= 0) std::abort();
    }
    if (timers.size() >= before) std::abort();
  }
  return 0;
}
