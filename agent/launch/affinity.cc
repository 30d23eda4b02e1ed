#include "agent/launch/affinity.h"

#include <climits>
#include <cstring>

#include "base/cpu_set.h"
#include "model/node_shape.h"

namespace muster::agent::inline launch {
namespace {

constexpr int kBitsPerWord = sizeof(unsigned long) * CHAR_BIT;

}  // namespace

base::Result<std::vector<unsigned long>> cpu_mask(const std::vector<int>& cpus) {
  std::vector<unsigned long> words;
  for (const int cpu : cpus) {
    if (cpu < 0 || cpu > base::kMaxCpu) {
      return base::invalid_argument("CPU {} is not a CPU number", cpu);
    }
    const auto word = static_cast<std::size_t>(cpu / kBitsPerWord);
    if (words.size() <= word) words.resize(word + 1);
    words[word] |= 1UL << (cpu % kBitsPerWord);
  }
  return words;
}

std::string explain_affinity_failure(const std::vector<int>& cpus, int errno_value) {
  return fmt::format("cannot bind to CPUs {}: {}; this host allows {}", model::format_cpu_list(cpus),
                     std::strerror(errno_value), model::format_cpu_list(base::allowed_cpus()));
}

}  // namespace muster::agent::launch
