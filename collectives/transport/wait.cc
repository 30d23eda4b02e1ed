#include "collectives/transport/wait.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace muster::collectives::inline transport {
namespace {

using std::chrono::milliseconds;

constexpr long kSleepNs = 10'000'000;
// Read the clock only after this many turns, because reading it costs as much as ten turns.
constexpr std::uint32_t kTurnsPerClockRead = 64;

// The word is shared between processes, so FUTEX_PRIVATE_FLAG must not be set.
long futex(const std::atomic<std::uint32_t>& word, int operation, std::uint32_t value, const timespec* timeout) {
  return syscall(SYS_futex, &word, operation, value, timeout, nullptr, 0);
}

void pause_once() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

base::Status status_of(const Failure& failure) {
  return {failure.code, failure.message};
}

}  // namespace

void Flag::publish(std::uint32_t value) {
  // Sequentially consistent, as is the sleeper's increment. So the sleeper sees the value, or we see the sleeper.
  value_.exchange(value);
  if (sleepers_.load() != 0) futex(value_, FUTEX_WAKE, INT_MAX, nullptr);
}

void Flag::wake() {
  value_.fetch_add(1);
  futex(value_, FUTEX_WAKE, INT_MAX, nullptr);
}

void Flag::sleep(std::uint32_t seen) {
  sleepers_.fetch_add(1);
  if (value_.load() == seen) sleep_counted(seen);
  sleepers_.fetch_sub(1);
}

void Flag::sleep_counted(std::uint32_t seen) {
  const timespec timeout{.tv_sec = 0, .tv_nsec = kSleepNs};
  // The caller checks again after any result: woken, changed before, timed out, or a signal.
  futex(value_, FUTEX_WAIT, seen, &timeout);
}

bool Waiter::stay_awake() {
  ++turns_;
  if (policy_.oversubscribed) {
    sched_yield();
  } else {
    pause_once();
  }
  if (turns_ % kTurnsPerClockRead != 0) return true;
  const auto now = std::chrono::steady_clock::now();
  if (turns_ == kTurnsPerClockRead) began_ = now;
  // The awaited rank may be on this very core if ranks are not pinned.
  if (!policy_.oversubscribed) sched_yield();
  return now - began_ < policy_.awake;
}

base::Status Waiter::check(const LateFailure& late) {
  if (abort_.is_raised()) return status_of(abort_.read());
  if (turns_ < kTurnsPerClockRead) return base::ok_status();
  const auto waited = std::chrono::steady_clock::now() - began_;
  if (waited > policy_.deadline) return status_of(late());
  if (policy_.on_late && !has_reported_ && waited > policy_.patience) {
    has_reported_ = true;
    policy_.on_late(late());
  }
  return base::ok_status();
}

base::Status Waiter::until_slow(Flag& flag, std::uint32_t value, const LateFailure& late,
                                const std::atomic<bool>* gone) {
  progress();
  while (true) {
    const bool awake = stay_awake();
    const std::uint32_t seen = flag.read();
    if (has_reached(seen, value)) return base::ok_status();
    const bool is_gone = gone != nullptr && gone->load(std::memory_order_acquire);
    if (awake && !is_gone && !abort_.is_raised()) continue;
    if (!awake && !is_gone) flag.sleep(seen);
    base::Status checked = check(late);
    if (checked.ok() && is_gone) checked = status_of(late());
    // A value that has arrived counts, even if its sender has ended since.
    if (has_reached(flag.read(), value)) return base::ok_status();
    MUSTER_RETURN_IF_ERROR(checked);
  }
}

base::Result<bool> Waiter::is_time_to_sleep(const LateFailure& late) {
  if (stay_awake() && !abort_.is_raised()) return false;
  MUSTER_RETURN_IF_ERROR(check(late));
  return true;
}

base::Status Waiter::idle(std::span<pollfd> fds, const LateFailure& late) {
  MUSTER_ASSIGN_OR_RETURN(const bool is_time, is_time_to_sleep(late));
  if (is_time) poll(fds.data(), fds.size(), 10);  // after an error or a signal, the caller checks again
  return base::ok_status();
}

}  // namespace muster::collectives::transport
