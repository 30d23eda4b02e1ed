#include "base/cpu_set.h"

#include <sched.h>

#include <climits>
#include <cstddef>

namespace muster::base {

std::vector<int> allowed_cpus() {
  constexpr std::size_t kBitsPerWord = sizeof(unsigned long) * CHAR_BIT;
  std::vector<unsigned long> words((kMaxCpu + 1) / kBitsPerWord);
  const std::size_t bytes = words.size() * sizeof(unsigned long);
  std::vector<int> cpus;
  if (::sched_getaffinity(0, bytes, reinterpret_cast<cpu_set_t*>(words.data())) != 0) return cpus;
  for (int cpu = 0; cpu <= kMaxCpu; ++cpu) {
    const auto at = static_cast<std::size_t>(cpu);
    if ((words[at / kBitsPerWord] >> (at % kBitsPerWord) & 1UL) != 0) cpus.push_back(cpu);
  }
  return cpus;
}

}  // namespace muster::base
