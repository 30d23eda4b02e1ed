// The kernels of isa.h, compiled for AVX-512 F, BW, DQ, VL.
#include "collectives/kernel/isa.h"
#include "collectives/kernel/loops.h"

namespace muster::collectives::inline kernel {

constexpr Isa kAvx512Isa = make_isa("avx512");

}  // namespace muster::collectives::kernel
