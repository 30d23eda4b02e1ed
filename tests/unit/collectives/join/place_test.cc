#include "collectives/join/place.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/file.h"
#include "base/strings.h"

namespace muster::collectives::place_test {
namespace {

TEST(PlaceTest, HostsOfTheSameNameThatWereBootedApartAreDifferent) {
  const auto boot = base::read_file("/proc/sys/kernel/random/boot_id", 4096);
  if (!boot.ok()) GTEST_SKIP() << boot.status();
  EXPECT_NE(own_place().find(std::string(base::trim(*boot))), std::string::npos) << own_place();
}

TEST(PlaceTest, HostsThatTheLauncherTellsApartAreDifferent) {
  unsetenv("MUSTER_HOSTNAME");
  const std::string unnamed = own_place();
  setenv("MUSTER_HOSTNAME", "n1", 1);
  const std::string first = own_place();
  EXPECT_EQ(own_host(), "n1");
  EXPECT_EQ(own_place(), first);
  setenv("MUSTER_HOSTNAME", "n2", 1);
  EXPECT_NE(own_place(), first);
  unsetenv("MUSTER_HOSTNAME");
  EXPECT_EQ(own_place(), unnamed);
}

}  // namespace
}  // namespace muster::collectives::place_test
