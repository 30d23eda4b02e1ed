#include "agent/gpus/pid_namespace.h"

#include <gtest/gtest.h>

#include "tests/unit/agent/gpus/gpu_tree.h"

namespace muster::agent::gpus::pid_namespace_test {
namespace {

TEST(PidNamespace, TheHostsHasItsNumber) {
  const testing_support::GpuTree tree;
  EXPECT_TRUE(is_in_host_namespace(tree.path()));
  tree.set_namespace("pid:[4026532837]");
  EXPECT_FALSE(is_in_host_namespace(tree.path()));
  tree.remove("proc/self/ns/pid");
  EXPECT_TRUE(is_in_host_namespace(tree.path()));
}

TEST(PidNamespace, DriversThatTranslate) {
  for (const char* const driver : {"535.113.01", "535.288.01", "545.23.06", "550.54.15", "1000.1"}) {
    EXPECT_TRUE(does_driver_translate_pids(driver)) << driver;
  }
  for (const char* const driver : {"", "of unknown version", "470.256.02", "535", "535.104.12", "535.x", "530.41.03"}) {
    EXPECT_FALSE(does_driver_translate_pids(driver)) << driver;
  }
}

}  // namespace
}  // namespace muster::agent::gpus::pid_namespace_test
