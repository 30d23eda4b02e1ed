// Parses the lines that torch's FileTimerClient writes into the watchdog's FIFO (torch.distributed.elastic.timer):
//
//   {"version": 1, "pid": 77, "scope_id": "train.py#12", "expiration_time": 1700000000.5, "signal": 9}
//
// A negative expiration time releases the timer of that scope. The lines come from programs of the job, so every field
// is checked.
//
// Thread: one. Plain values.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace muster::agent::inline job {

// The client writes no longer line, because only writes up to PIPE_BUF are atomic.
inline constexpr std::size_t kMaxWatchdogLine = 4096;

struct WatchdogRequest {
  std::int64_t pid = 0;        // as the rank sees itself; positive
  std::string scope;           // as in the line, with JSON's escapes; may be empty
  double expiration_time = 0;  // seconds since the epoch
  int signal = 0;              // 0 or less: the timer ends nothing

  bool is_release() const { return expiration_time < 0; }
  bool operator==(const WatchdogRequest&) const = default;
};

// Parses a line without its newline: one flat JSON object. Unknown fields with simple values are ignored.
// INVALID_ARGUMENT: it is anything else, or a field is missing, repeated or out of range.
base::Result<WatchdogRequest> parse_watchdog_request(std::string_view line);

// Splits the bytes of the FIFO into lines. A longer line than kMaxWatchdogLine is dropped whole.
class WatchdogLines {
 public:
  // Calls `on_line` for each line that is complete now.
  void append(std::string_view bytes, const std::function<void(std::string_view)>& on_line);
  std::uint64_t dropped() const { return dropped_; }

 private:
  std::string rest_;
  bool is_too_long_ = false;  // the line that is being read
  std::uint64_t dropped_ = 0;
};

}  // namespace muster::agent::job
