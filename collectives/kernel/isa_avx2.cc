// The kernels of isa.h, compiled for AVX2 and F16C.
#include "collectives/kernel/isa.h"
#include "collectives/kernel/loops.h"

namespace muster::collectives::inline kernel {

constexpr Isa kAvx2Isa = make_isa("avx2");

}  // namespace muster::collectives::kernel
