#include "agent/launch/affinity.h"

#include <sched.h>

#include <algorithm>
#include <climits>
#include <cstring>

namespace muster::agent {
namespace {

constexpr int kMaxCpu = 65535;
constexpr int kBitsPerWord = sizeof(unsigned long) * CHAR_BIT;

std::vector<int> allowed_cpus() {
  std::vector<unsigned long> words((kMaxCpu + 1) / kBitsPerWord);
  const std::size_t bytes = words.size() * sizeof(unsigned long);
  std::vector<int> cpus;
  if (::sched_getaffinity(0, bytes, reinterpret_cast<cpu_set_t*>(words.data())) != 0) return cpus;
  for (int cpu = 0; cpu <= kMaxCpu; ++cpu) {
    const auto word = words[static_cast<std::size_t>(cpu / kBitsPerWord)];
    if ((word >> (cpu % kBitsPerWord) & 1UL) != 0) cpus.push_back(cpu);
  }
  return cpus;
}

}  // namespace

base::Result<std::vector<unsigned long>> cpu_mask(const std::vector<int>& cpus) {
  std::vector<unsigned long> words;
  for (const int cpu : cpus) {
    if (cpu < 0 || cpu > kMaxCpu) {
      return base::error(base::Code::kInvalidArgument, "CPU {} is not a CPU number", cpu);
    }
    const auto word = static_cast<std::size_t>(cpu / kBitsPerWord);
    if (words.size() <= word) words.resize(word + 1);
    words[word] |= 1UL << (cpu % kBitsPerWord);
  }
  return words;
}

std::string explain_affinity_failure(const std::vector<int>& cpus, int errno_value) {
  return fmt::format("cannot bind to CPUs {}: {}; this host allows {}", format_cpu_list(cpus),
                     std::strerror(errno_value), format_cpu_list(allowed_cpus()));
}

std::string format_cpu_list(std::vector<int> cpus) {
  std::sort(cpus.begin(), cpus.end());
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  std::string text;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += last == i ? fmt::format("{}", cpus[i]) : fmt::format("{}-{}", cpus[i], cpus[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace muster::agent
