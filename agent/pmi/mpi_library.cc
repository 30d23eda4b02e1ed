#include "agent/pmi/mpi_library.h"

#include <fmt/format.h>

#include "base/file.h"

namespace muster::agent::inline pmi {

bool maps_mpich_over_ucx(std::string_view maps) {
  const bool has_ucx = maps.find("/libucp.so.") != std::string_view::npos;
  // Debian's name, then the name in MPICH's own makefile.
  const bool is_mpich =
      maps.find("/libmpich.so.12") != std::string_view::npos || maps.find("/libmpi.so.12") != std::string_view::npos;
  return has_ucx && is_mpich;
}

bool is_mpich_over_ucx(pid_t pid) {
  if (pid <= 0) return false;
  const auto maps = base::read_file(fmt::format("/proc/{}/maps", pid));
  return maps.ok() && maps_mpich_over_ucx(*maps);
}

}  // namespace muster::agent::pmi
