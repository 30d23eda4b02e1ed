// How long a process waits for other ranks when it frees communicators on GPUs. If other ranks keep theirs, it waits in
// vain. All waits in vain together take at most two seconds.
//
// Thread: any.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>

namespace muster::collectives::inline call {

class Farewell {
 public:
  using Time = std::chrono::milliseconds;
  static constexpr Time kAll{2000};
  static constexpr Time kLeast{20};  // for ranks that free theirs at the same moment

  // The limit of the next wait.
  Time time() const { return std::max(left_.load(), kLeast); }
  // Records a wait. If the other ranks came, the full time is available again, because they will come next time, too.
  void waited(Time took, bool have_come) { left_ = have_come ? kAll : std::max(left_.load() - took, Time{0}); }

  // `have_come(time)` waits for at most `time` and returns whether the other ranks have come.
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
