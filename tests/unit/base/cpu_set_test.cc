#include "base/cpu_set.h"

#include <sched.h>

#include <algorithm>

#include <gtest/gtest.h>

namespace muster::base::cpu_set_test {
namespace {

TEST(AllowedCpus, AreThoseOfTheAffinityMask) {
  const std::vector<int> cpus = allowed_cpus();
  ASSERT_FALSE(cpus.empty());
  EXPECT_TRUE(std::ranges::is_sorted(cpus));
  cpu_set_t set;
  ASSERT_EQ(::sched_getaffinity(0, sizeof set, &set), 0);
  EXPECT_EQ(static_cast<int>(cpus.size()), CPU_COUNT(&set));
  for (const int cpu : cpus) EXPECT_TRUE(CPU_ISSET(static_cast<std::size_t>(cpu), &set)) << cpu;
}

}  // namespace
}  // namespace muster::base::cpu_set_test
