// The kernels of isa.h, compiled for the baseline of the build's processor family.
#include "collectives/kernel/isa.h"
#include "collectives/kernel/loops.h"

namespace muster::collectives::inline kernel {

constexpr Isa kScalarIsa = make_isa("scalar");

}  // namespace muster::collectives::kernel
