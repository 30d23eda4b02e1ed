// How long a process waits for ranks that have not freed what it frees itself (communicators on GPUs). What others keep
// costs it a wait in vain: all of these together are of two seconds.
//
// Any thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>

namespace muster::collectives::inline call {

class Farewell {
 public:
  using Time = std::chrono::milliseconds;
  static constexpr Time kAll{2000};
  static constexpr Time kLeast{20};  // for ranks that free it at the same moment

  // For the next wait.
  Time time() const { return std::max(left_.load(), kLeast); }
  // How a wait was. Ranks that free together do so next time, too: that gives back what waits in vain have taken.
  void waited(Time took, bool have_come) { left_ = have_come ? kAll : std::max(left_.load() - took, Time{0}); }

  // `have_come(time)` waits for so long, and says whether they have come.
  template <class Wait>
  bool wait(const Wait& have_come) {
    const auto begin = std::chrono::steady_clock::now();
    const bool have = have_come(time());
    waited(std::chrono::ceil<Time>(std::chrono::steady_clock::now() - begin), have);
    return have;
  }

 private:
  std::atomic<Time> left_{kAll};
};

}  // namespace muster::collectives::call
