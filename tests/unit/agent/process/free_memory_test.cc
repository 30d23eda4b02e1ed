#include "agent/process/free_memory.h"

#include <fstream>

#include <gtest/gtest.h>

#include "tests/unit/support/temp_dir.h"

namespace muster::agent::free_memory_test {
namespace {

class FreeMemoryTest : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) { std::ofstream(dir_ / name) << text; }
  std::optional<std::uint64_t> free(const std::string& events) {
    return free_memory_kib({.meminfo = dir_ / "meminfo", .memory_events = events.empty() ? "" : dir_ / events});
  }

  testing_support::TempDir dir_;
};

TEST_F(FreeMemoryTest, ReadsTheHosts) {
  write("meminfo", "MemTotal:       100 kB\nMemFree:  1 kB\nMemAvailable:     70 kB\n");
  EXPECT_EQ(free(""), 70U);
  EXPECT_EQ(free("memory.events"), 70U) << "there is no such cgroup";
  write("meminfo", "MemTotal:       100 kB\n");
  EXPECT_EQ(free(""), std::nullopt);
}

TEST_F(FreeMemoryTest, TakesTheCgroupsIfItIsLess) {
  write("meminfo", "MemAvailable:     70 kB\n");
  write("memory.max", "65536\n");
  write("memory.current", "40960\n");
  write("memory.stat", "anon 1\ninactive_file 10240\n");
  EXPECT_EQ(free("memory.events"), 34U);
  write("memory.max", "max\n");
  EXPECT_EQ(free("memory.events"), 70U);
  write("memory.max", "1024\n");
  EXPECT_EQ(free("memory.events"), 0U);
}

TEST_F(FreeMemoryTest, KnowsTheFilesOfVersionOne) {
  write("meminfo", "MemAvailable:     70 kB\n");
  write("memory.limit_in_bytes", "10240\n");
  write("memory.usage_in_bytes", "8192\n");
  write("memory.stat", "inactive_file 1\ntotal_inactive_file 4096\n");
  EXPECT_EQ(free("memory.oom_control"), 6U);
  write("memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(free("memory.oom_control"), 70U);
}

TEST(FreeMemoryOfThisHost, IsMoreThanNothing) {
  EXPECT_GT(free_memory_kib({}).value_or(0), 0U);
}

}  // namespace
}  // namespace muster::agent::free_memory_test
