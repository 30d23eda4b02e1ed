// HeapTrimmer returns freed memory to the kernel. When many agents connect or a large job ends, much memory is used for
// a moment. The C library keeps what was freed between pieces that are still used, unless malloc_trim() is called.
//
// Owner: Daemon, which calls trim_if_due() every kPeriod.
// Thread: loop thread only. The heap is that of all threads.
// Cost: a question to the C library each time; malloc_trim() only after kWorthwhile bytes were freed. With 10,000
// agents it takes some 10 ms.
//
//   timer = loop.every(HeapTrimmer::kPeriod, [this] { trimmer.trim_if_due(); });
#pragma once

#include <chrono>
#include <cstddef>

namespace muster::launcherd::inline daemon {

class HeapTrimmer {
 public:
  static constexpr std::chrono::seconds kPeriod{5};
  static constexpr std::size_t kWorthwhile = std::size_t{16} << 20;

  // Returns true if it has trimmed the heap.
  bool trim_if_due();

 private:
  // The smallest number of free bytes in the heap since the last trim. Bytes that were returned to the kernel count as
  // free, too, so only a growth shows new ones.
  std::size_t least_free_ = 0;
};

}  // namespace muster::launcherd::daemon
