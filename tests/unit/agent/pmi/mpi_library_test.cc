#include "agent/pmi/mpi_library.h"

#include <unistd.h>

#include <gtest/gtest.h>

namespace muster::agent::mpi_library_test {
namespace {

TEST(MpiLibrary, IsKnownByItsMaps) {
  const std::string ucx = "7f2420e4f000-7f2420e5c000 r-xp 0001 08:01 12 /usr/lib/x86_64-linux-gnu/libucp.so.0.0.0\n";
  const std::string mpich =
      "7f2420f2e000-7f2421200000 r-xp 0001 08:01 13 /usr/lib/x86_64-linux-gnu/libmpich.so.12.2.2\n";
  const std::string own = "7f2420f2e000-7f2421200000 r-xp 0001 08:01 13 /opt/mpich/lib/libmpi.so.12.2.2\n";
  const std::string open_mpi = "7f2420f2e000-7f2421200000 r-xp 0001 08:01 13 /usr/lib/libmpi.so.40.30.4\n";
  EXPECT_TRUE(maps_mpich_over_ucx(ucx + mpich));
  EXPECT_TRUE(maps_mpich_over_ucx(own + ucx));
  EXPECT_FALSE(maps_mpich_over_ucx(mpich)) << "over libfabric";
  EXPECT_FALSE(maps_mpich_over_ucx(ucx + open_mpi));
  EXPECT_FALSE(maps_mpich_over_ucx(""));
}

TEST(MpiLibrary, AProcessThatCannotBeLookedAtHasNone) {
  EXPECT_FALSE(is_mpich_over_ucx(::getpid()));
  EXPECT_FALSE(is_mpich_over_ucx(0));
  EXPECT_FALSE(is_mpich_over_ucx(-1));
}

}  // namespace
}  // namespace muster::agent::mpi_library_test
