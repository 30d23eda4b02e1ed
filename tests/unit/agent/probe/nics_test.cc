#include "agent/probe/nics.h"

#include <gtest/gtest.h>

#include "tests/unit/support/temp_dir.h"

namespace muster::agent::nics_test {
namespace {

class NicsTest : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& content) const { sys_.write("class/" + path, content + "\n"); }

  testing_support::TempDir sys_;
};

TEST_F(NicsTest, NoSuchFolders) {
  EXPECT_TRUE(read_nics(sys_.path()).empty());
}

TEST_F(NicsTest, EthernetAndInfiniband) {
  write("net/lo/type", "772");
  write("net/bonding_masters", "bond0");
  write("net/eth1/type", "1");
  write("net/eth1/operstate", "down");
  write("net/eth1/speed", "-1");
  write("net/eth0/type", "1");
  write("net/eth0/operstate", "up");
  write("net/eth0/speed", "25000");
  write("infiniband/mlx5_0/ports/1/state", "4: ACTIVE");
  write("infiniband/mlx5_0/ports/1/rate", "100 Gb/sec (4X EDR)");
  write("infiniband/mlx5_1/ports/1/state", "1: DOWN");
  write("infiniband/mlx5_1/ports/1/rate", "2.5 Gb/sec (1X SDR)");
  const auto nics = read_nics(sys_.path());
  ASSERT_EQ(nics.size(), 4u);
  EXPECT_EQ(nics[0].name() + " " + nics[0].state(), "eth0 up");
  EXPECT_EQ(nics[0].speed_mbps(), 25000);
  EXPECT_EQ(nics[1].name() + " " + nics[1].state(), "eth1 down");
  EXPECT_EQ(nics[1].speed_mbps(), 0);
  EXPECT_EQ(nics[2].name() + " " + nics[2].kind() + " " + nics[2].state(), "mlx5_0/1 infiniband ACTIVE");
  EXPECT_EQ(nics[2].speed_mbps(), 100'000);
  EXPECT_EQ(nics[3].state(), "DOWN");
}

}  // namespace
}  // namespace muster::agent::nics_test
