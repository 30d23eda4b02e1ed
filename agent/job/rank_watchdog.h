// Serves torch's watchdog to the ranks of this host, as torchrun's agent does with TORCHELASTIC_ENABLE_FILE_TIMER=1.
//
// A rank writes timers into a FIFO, by torch's FileTimerClient. When a timer expires, the rank hangs in the timer's
// scope. The user gets a line, then lines with the stack of the rank, and then the rank gets the timer's signal. Its
// end counts as the rank's own failure, so the launcher ends the job or starts it again. torchrun's agent would end
// itself instead. Only ranks of this host get signals. A timer of any other process is reported and has no effect.
//
// Owner: SessionRanks.
// Thread: the loop thread only.
// Errors: lines that are no requests are reported once and dropped.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "agent/job/watchdog_request.h"
#include "agent/job/watchdog_timers.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::agent::inline job {

class RankWatchdog {
 public:
  // StackAnswers with this bit in their id are for the watchdog. The launcher's own ids never reach it.
  static constexpr std::uint64_t kStackBit = std::uint64_t{1} << 63;

  struct Events {
    std::function<void(const std::string&)> on_notice;  // a sentence for the user
    // Reads the stacks of these ranks. The answers go to stack_arrived().
    std::function<void(std::uint64_t id, const std::set<int>& ranks)> read_stacks;
    std::function<void(int rank, int signo)> signal;
  };

  // `clock` tells the time at which timers expire. `loop` and `clock` outlive this object.
  RankWatchdog(base::Loop& loop, const base::Clock& clock, Events events);
  RankWatchdog(const RankWatchdog&) = delete;
  RankWatchdog& operator=(const RankWatchdog&) = delete;

  // Makes the FIFO. Call it before the ranks start, which get its path as TORCHELASTIC_TIMER_FILE.
  base::Status open(const std::string& session_dir);
  // `pid` is the rank's pid as it sees itself.
  void started(int rank, pid_t pid) { ranks_[pid] = rank; }
  void ended(int rank);
  // Makes the end of a rank by the watchdog's signal a failure of that rank, not an effect of a stop.
  void judge(v1::RankExited& exited) const;
  void stack_arrived(const v1::StackAnswer& answer);

 private:
  struct Hung {
    int signal = 0;
    std::uint64_t reading = 0;  // id of the StackAnswers; 0 once it got its signal
  };

  void readable();
  void take_line(std::string_view line);
  void arm();
  void expire();
  void end_reading(std::uint64_t id);

  base::Loop& loop_;
  const base::Clock& clock_;
  const Events events_;
  base::UniqueFd fifo_;
  base::Timer watch_;
  base::Timer timer_;
  WatchdogLines lines_;
  WatchdogTimers timers_;
  std::map<std::int64_t, int> ranks_;  // by pid
  std::map<int, Hung> hung_;           // by rank
  std::uint64_t readings_ = 0;
  bool has_reported_line_ = false;
  bool has_reported_room_ = false;
  bool has_reported_pid_ = false;
};

}  // namespace muster::agent::job
