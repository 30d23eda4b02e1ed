#include "agent/host/host_load.h"

#include <gtest/gtest.h>

#include "tests/unit/support/temp_dir.h"

namespace muster::agent::host_load_test {
namespace {

TEST(HostLoad, CpuTimesOfProcStat) {
  const auto times = parse_cpu_times("cpu  10 20 30 400 50 6 7 8 9 10\ncpu0 1 2 3 4 5 6 7 8 9 10\nintr 99\n");
  ASSERT_TRUE(times);
  EXPECT_EQ(times->busy, 10u + 20 + 30 + 6 + 7 + 8);  // guests are in user and nice already
  EXPECT_EQ(times->total, times->busy + 400 + 50);
  const auto old = parse_cpu_times("cpu 1 2 3 4 5");  // Linux 2.5
  ASSERT_TRUE(old);
  EXPECT_EQ(old->busy, 6u);
}

TEST(HostLoad, WhatIsNoProcStat) {
  for (const char* const bad :
       {"", "\n", "cpu", "cpu \n", "cpu 1 2 3 4", "cpu0 1 2 3 4 5 6 7 8", "cpu 1 2 3 -4 5", "cpu a b c d e",
        "cpu 1 2 3 4 99999999999999999999999", "intr 1 2 3 4 5 6 7 8", "cpu 1 2 3 4 5x 6"}) {
    EXPECT_FALSE(parse_cpu_times(bad)) << bad;
  }
}

TEST(HostLoad, BetweenTwoReadings) {
  EXPECT_EQ(cpu_percent({.busy = 100, .total = 1'000}, {.busy = 150, .total = 1'200}), 25);
  EXPECT_EQ(cpu_percent({.busy = 100, .total = 1'000}, {.busy = 100, .total = 1'200}), 0);
  EXPECT_EQ(cpu_percent({.busy = 100, .total = 1'000}, {.busy = 300, .total = 1'200}), 100);
  EXPECT_EQ(cpu_percent({.busy = 100, .total = 1'000}, {.busy = 500, .total = 1'200}), 100);  // idle went back
  EXPECT_FALSE(cpu_percent({.busy = 100, .total = 1'000}, {.busy = 100, .total = 1'000}));
  EXPECT_FALSE(cpu_percent({.busy = 100, .total = 1'000}, {.busy = 90, .total = 1'100}));
  EXPECT_FALSE(cpu_percent({.busy = 100, .total = 1'000}, {.busy = 1, .total = 9}));
}

TEST(HostLoad, MemoryThatIsUsed) {
  EXPECT_EQ(parse_used_memory("MemTotal:       4096 kB\nMemFree:  1 kB\nMemAvailable:    1024 kB\n"), 3);
  for (const char* const bad :
       {"", "MemTotal: 4096 kB\n", "MemAvailable: 1 kB\n", "MemTotal: 1 kB\nMemAvailable: 2 kB\n",
        "MemTotal: 4096\nMemAvailable: 1024\n", "MemTotal: x kB\nMemAvailable: 1024 kB\n",
        "MemTotal: 4096 MB\nMemAvailable: 1024 kB\n"}) {
    EXPECT_FALSE(parse_used_memory(bad)) << bad;
  }
}

v1::HostLoad load(int cpu, std::int64_t memory, std::initializer_list<int> gpus = {}) {
  v1::HostLoad made;
  made.set_cpu_percent(cpu);
  made.set_memory_used_mib(memory);
  for (const int percent : gpus) made.add_gpus()->set_busy_percent(percent);
  return made;
}

TEST(HostLoad, OnlyWhatWouldBeSeenIsNoticeable) {
  EXPECT_FALSE(is_noticeable(load(10, 1'000), load(11, 1'050)));
  EXPECT_TRUE(is_noticeable(load(10, 1'000), load(12, 1'000)));
  EXPECT_TRUE(is_noticeable(load(10, 1'000), load(10, 1'064)));
  EXPECT_FALSE(is_noticeable(load(10, 100'000), load(10, 100'900)));
  EXPECT_TRUE(is_noticeable(load(10, 100'000), load(10, 98'000)));
  EXPECT_TRUE(is_noticeable(load(10, 1, {5}), load(10, 1, {50})));
  EXPECT_TRUE(is_noticeable(load(10, 1), load(10, 1, {50})));
  v1::HostLoad well = load(10, 1, {5});
  EXPECT_FALSE(is_noticeable(well, well));
  v1::HostLoad other = well;
  other.mutable_gpus(0)->set_index(7);
  EXPECT_TRUE(is_noticeable(well, other)) << "one has gone, and another has come";
  other = well;
  other.mutable_gpus(0)->set_processes(0);
  EXPECT_TRUE(is_noticeable(well, other)) << "nobody had told";
  other = well;
  other.set_gpu_problem("GPU 1 is lost");
  EXPECT_TRUE(is_noticeable(well, other) && is_noticeable(other, well));
  EXPECT_TRUE(is_noticeable({}, load(0, 0)));
  EXPECT_FALSE(is_noticeable({}, {}));
}

TEST(HostLoad, EachReadingIsOfTheTimeSinceTheLast) {
  const testing_support::TempDir root;
  root.write("proc/stat", "cpu 100 0 0 900 0 0 0 0\n");
  root.write("proc/meminfo", "MemTotal: 4096 kB\nMemAvailable: 1024 kB\n");
  HostLoadReader reader(root.path());
  const v1::HostLoad first = reader.read();
  EXPECT_FALSE(first.has_cpu_percent());
  EXPECT_EQ(first.memory_used_mib(), 3);
  root.write("proc/stat", "cpu 175 0 0 925 0 0 0 0\n");
  const v1::HostLoad second = reader.read();
  EXPECT_EQ(second.cpu_percent(), 75);
}

TEST(HostLoad, NothingIsThere) {
  const testing_support::TempDir root;
  HostLoadReader reader(root.path());
  reader.read();
  EXPECT_EQ(reader.read().ByteSizeLong(), 0u);
}

TEST(HostLoad, ThisHost) {
  HostLoadReader reader;
  reader.read();
  EXPECT_GT(reader.read().memory_used_mib(), 0);
}

}  // namespace
}  // namespace muster::agent::host_load_test
