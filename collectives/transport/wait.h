// How a rank waits (specs: waking an idle core costs 25-85 us, handing over a core 0.65 us, so that the right way to
// wait decides what small operations cost).
//
// Cores to spare: spins with PAUSE for a while, then sleeps. More ranks than cores: gives the core away at every turn,
// and sleeps when that has not helped. Sleep ends after at most 10 ms, to look at the abort record and the deadline.
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
  std::chrono::microseconds awake{200};        // spinning or yielding before the first sleep
  std::chrono::milliseconds deadline{30'000};  // of one operation without progress
  // Where it is set, it is told once of each wait that has taken longer than `patience`: whom that waits for (the code
  // and the message are those of the deadline). Called within the wait.
  std::chrono::milliseconds patience{0};
  std::function<void(const Failure& late)> on_late = {};
};

// What is waited for, when it does not come: names the rank. Called at the deadline, when it has gone, and where the
// policy wants to know before.
// A reference to a callable, valid as long as that is: waits are too short for an allocation.
class WhoIsLate {
 public:
  template <typename Late>
  requires(!std::is_same_v<Late, WhoIsLate>)
      WhoIsLate(const Late& late)  // NOLINT(google-explicit-constructor): given as a lambda
      : object_(&late), call_([](const void* object) { return (*static_cast<const Late*>(object))(); }) {}
  Failure operator()() const { return call_(object_); }

 private:
  const void* object_;
  Failure (*call_)(const void*);
};

// A counter in shared memory that one rank advances and others wait for. Zero bytes are a counter at 0.
class Flag {
 public:
  std::uint32_t read() const { return value_.load(std::memory_order_acquire); }
  // Wakes who sleeps.
  void publish(std::uint32_t value);
  // Sleeps while the value is `seen`, for at most 10 ms.
  void sleep(std::uint32_t seen);

  // As a bell: its value means nothing. Who has changed something else (by a sequentially consistent store) rings,
  // which costs little while nobody sleeps; the sleeper looks at that once more when a ring would already wake it.
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

// One operation's waiting: the deadline begins anew with every progress. Not shared between threads.
class Waiter {
 public:
  Waiter(const WaitPolicy& policy, const AbortRecord& abort) : policy_(policy), abort_(abort) {}

  // Until `flag` has reached `value` (serial number arithmetic). ABORTED and other codes: as the record says;
  // DEADLINE_EXCEEDED, or when `gone` (may be null) becomes true: what `late` says.
  template <typename Late>
  base::Status until(Flag& flag, std::uint32_t value, const Late& late, const std::atomic<bool>* gone = nullptr) {
    if (has_reached(flag.read(), value)) return base::ok_status();
    return until_slow(flag, value, late, gone);
  }

  // For loops that move bytes over links: call idle() after each turn that moved nothing, progress() after others.
  // When it is time to sleep, polls `fds` (may be empty) for at most 10 ms.
  base::Status idle(std::span<pollfd> fds, const WhoIsLate& late);
  void progress() {
    turns_ = 0;
    has_told_ = false;
  }
  // idle() for who sleeps by other means: true when it is time to, for 10 ms at most.
  base::Result<bool> is_time_to_sleep(const WhoIsLate& late);

  static bool has_reached(std::uint32_t now, std::uint32_t value) {
    return static_cast<std::int32_t>(now - value) >= 0;
  }

 private:
  base::Status until_slow(Flag& flag, std::uint32_t value, const WhoIsLate& late, const std::atomic<bool>* gone);
  // One turn awake; false: it is time to sleep.
  bool stay_awake();
  base::Status check(const WhoIsLate& late);

  const WaitPolicy& policy_;
  const AbortRecord& abort_;
  std::uint32_t turns_ = 0;      // since the last progress
  bool has_told_ = false;        // policy_.on_late, since then
  base::MonotonicTime began_{};  // set at the first look at the clock: short waits do without
};

}  // namespace muster::collectives::transport
