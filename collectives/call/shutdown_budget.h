// Limits how long a process waits for other ranks when it frees communicators on GPUs. If the other ranks keep theirs,
// the wait only ends at its limit. All such waits together take at most two seconds.
//
// Thread: any.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>

namespace muster::collectives::inline call {

class ShutdownBudget {
 public:
  using Time = std::chrono::milliseconds;
  static constexpr Time kAll{2000};
  static constexpr Time kLeast{20};  // long enough if all ranks free their communicators at the same moment

  // Returns the limit of the next wait.
  Time time() const { return std::max(left_.load(), kLeast); }
  // Records a wait. If the other ranks have freed their communicators, the full time is available again, because they
  // will probably free the next ones, too.
  void waited(Time took, bool have_freed) { left_ = have_freed ? kAll : std::max(left_.load() - took, Time{0}); }

  // `have_freed(time)` waits for at most `time` and returns whether the other ranks have freed their
  // communicators.
  template <class Wait>
  bool wait(const Wait& have_freed) {
    const auto begin = std::chrono::steady_clock::now();
    const bool have = have_freed(time());
    waited(std::chrono::ceil<Time>(std::chrono::steady_clock::now() - begin), have);
    return have;
  }

 private:
  std::atomic<Time> left_{kAll};
};

}  // namespace muster::collectives::call
