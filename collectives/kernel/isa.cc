#include "collectives/kernel/isa.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace muster::collectives::inline kernel {
namespace {

#if defined(__x86_64__)
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

// The compiler's builtin also checks that the kernel saves the registers.
bool has_avx2() {
  return __builtin_cpu_supports("avx2") != 0 && has_f16c();
}

bool has_avx512() {
  return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
         __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
}
#endif

struct Found {
  Found() {
#if defined(__x86_64__)
    if (has_avx512()) list[size++] = &kAvx512Isa;
    if (has_avx2()) list[size++] = &kAvx2Isa;
#endif
    list[size++] = &kScalarIsa;
  }
  const Isa* list[3] = {};
  std::size_t size = 0;
};

}  // namespace

std::span<const Isa* const> isas() {
  static const Found kFound;
  return {kFound.list, kFound.size};
}

}  // namespace muster::collectives::kernel
