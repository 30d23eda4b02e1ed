// The kernels of isa.h, compiled for what every processor of the build's kind has.
#include "collectives/kernel/isa.h"
#include "collectives/kernel/loops.h"

namespace muster::collectives::inline kernel {

constexpr Isa kScalarIsa = make_isa("scalar");

}  // namespace muster::collectives::kernel
