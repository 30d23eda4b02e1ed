// How a rank waits. The way to wait decides what small operations cost. In our measurements, waking an idle core took
// 25-85 us, and handing over a core 0.65 us.
//
// If cores are free, a wait spins with PAUSE for a while and then sleeps. If there are more ranks than cores, it yields
// its core at every turn, and sleeps if that does not help. A sleep lasts at most 10 ms, then the wait checks the abort
// record and the deadline.
#pragma once

#include <poll.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <type_traits>

#include "base/clock.h"
#include "base/status.h"
#include "collectives/transport/abort.h"

namespace muster::collectives::inline transport {

struct WaitPolicy {
  bool oversubscribed = false;                 // more ranks on this host than cores for them
  std::chrono::microseconds awake{200};        // how long to spin or yield before the first sleep
  std::chrono::milliseconds deadline{30'000};  // longest time of one operation without progress
  // If on_late is set, it is called once for each wait that takes longer than `patience`, on the waiting thread. It
  // gets the failure that the deadline would return, which names the late rank.
  std::chrono::milliseconds patience{0};
  std::function<void(const Failure& late)> on_late = {};
};

// A function that makes the failure for a late rank: the failure names the rank that a wait waits for. The wait calls
// it at the deadline and when the rank has ended, and earlier if the policy has on_late. A LateFailure only refers to
// its callable, which must outlive it, because waits are too short for an allocation.
class LateFailure {
 public:
  template <typename Late>
  requires(!std::is_same_v<Late, LateFailure>)
      LateFailure(const Late& late)  // NOLINT(google-explicit-constructor): given as a lambda
      : object_(&late), call_([](const void* object) { return (*static_cast<const Late*>(object))(); }) {}
  Failure operator()() const { return call_(object_); }

 private:
  const void* object_;
  Failure (*call_)(const void*);
};

// A counter in shared memory that one rank advances and other ranks wait for. Zero bytes are a counter at 0.
class Flag {
 public:
  std::uint32_t read() const { return value_.load(std::memory_order_acquire); }
  // Sets the value and wakes sleeping ranks.
  void publish(std::uint32_t value);
  // Sleeps while the value is `seen`, for at most 10 ms.
  void sleep(std::uint32_t seen);

  // Uses the flag as a bell, whose value means nothing. The caller first changes something else by a sequentially
  // consistent store, then rings. Ringing costs little while no rank sleeps. The sleeper first registers for rings,
  // then checks for the change once more.
  void ring() {
    if (sleepers_.load() != 0) wake();
  }
  template <typename HasChanged>
  void sleep_unless(const HasChanged& has_changed) {
    sleepers_.fetch_add(1);
    const std::uint32_t seen = value_.load();
    if (!has_changed()) sleep_counted(seen);
    sleepers_.fetch_sub(1);
  }

 private:
  void wake();
  void sleep_counted(std::uint32_t seen);

  std::atomic<std::uint32_t> value_;
  std::atomic<std::uint32_t> sleepers_;
};
static_assert(sizeof(Flag) == 8);

// Waits for one operation. The deadline starts again with every progress.
// Thread: not shared between threads.
class Waiter {
 public:
  Waiter(const WaitPolicy& policy, const AbortRecord& abort) : policy_(policy), abort_(abort) {}

  // Waits until `flag` has reached `value` (serial number arithmetic). If the abort record is raised, returns its
  // failure (ABORTED or others). At the deadline, or when `gone` (may be null) becomes true, returns the failure that
  // `late` makes.
  template <typename Late>
  base::Status until(Flag& flag, std::uint32_t value, const Late& late, const std::atomic<bool>* gone = nullptr) {
    if (has_reached(flag.read(), value)) return base::ok_status();
    return until_slow(flag, value, late, gone);
  }

  // The next calls serve loops that move bytes over links. Call idle() after each turn that moved nothing, and
  // progress() after every other turn. When it is time to sleep, idle() polls `fds` (may be empty) for at most 10 ms.
  base::Status idle(std::span<pollfd> fds, const LateFailure& late);
  void progress() {
    turns_ = 0;
    has_reported_ = false;
  }
  // Does what idle() does, for callers that sleep by other means. True if the caller must sleep, for 10 ms at most.
  base::Result<bool> is_time_to_sleep(const LateFailure& late);

  static bool has_reached(std::uint32_t now, std::uint32_t value) {
    return static_cast<std::int32_t>(now - value) >= 0;
  }

 private:
  base::Status until_slow(Flag& flag, std::uint32_t value, const LateFailure& late, const std::atomic<bool>* gone);
  // Spends one turn awake; false when it is time to sleep.
  bool stay_awake();
  base::Status check(const LateFailure& late);

  const WaitPolicy& policy_;
  const AbortRecord& abort_;
  std::uint32_t turns_ = 0;      // since the last progress
  bool has_reported_ = false;    // whether policy_.on_late was called since the last progress
  base::MonotonicTime began_{};  // set when the clock is first read; short waits do not read it
};

}  // namespace muster::collectives::transport
