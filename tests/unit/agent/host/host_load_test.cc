#include "agent/host/host_load.h"

#include <filesystem>

#include <fmt/format.h>
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

constexpr std::string_view kNetDev =
    "Inter-|   Receive                                                |  Transmit\n"
    " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier "
    "compressed\n"
    "    lo: 900 1 0 0 0 0 0 0 900 1 0 0 0 0 0 0\n"
    "  eth0: 100 2 0 0 0 0 0 0 20 3 0 0 0 0 0 0\n"
    "veth1a:5 2 0 0 0 0 0 0 6 3 0 0 0 0 0 0\n";

TEST(HostLoad, NetworkBytesOfEachInterface) {
  EXPECT_EQ(parse_network_bytes(kNetDev), (NetworkBytes{{"eth0", 120}, {"veth1a", 11}}));
}

TEST(HostLoad, MalformedLinesOfNetDevAreSkipped) {
  for (const char* const bad :
       {"", "\n\n", ":", "eth0:", "eth0: 1 2 3", "eth0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16",
        "eth0: x 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16", "eth0: -1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16",
        "eth0: 99999999999999999999999 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16",
        "eth0: 1 2 3 4 5 6 7 8 9x 10 11 12 13 14 15 16", ": 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16"}) {
    EXPECT_TRUE(parse_network_bytes(bad).empty()) << bad;
  }
  std::string many;
  for (int i = 0; i < 10'000; ++i) many += fmt::format("v{}: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n", i);
  EXPECT_EQ(parse_network_bytes(many).size(), 4096u);
}

TEST(HostLoad, NetworkRateOfInterfacesInBothReadings) {
  using namespace std::chrono_literals;
  EXPECT_EQ(network_rate({{"a", 100}, {"b", 7}}, {{"a", 400}, {"b", 8}}, 2s), 151);  // 150.5
  EXPECT_EQ(network_rate({{"a", 100}, {"gone", 1}}, {{"a", 300}, {"new", 1 << 30}}, 1s), 200);
  EXPECT_EQ(network_rate({{"a", 100}, {"reset", 50}}, {{"a", 100}, {"reset", 3}}, 1s), 0);
  EXPECT_FALSE(network_rate({}, {{"a", 300}}, 1s));
  EXPECT_FALSE(network_rate({{"a", 300}}, {{"a", 1}}, 1s));
  EXPECT_FALSE(network_rate({{"a", 1}}, {{"a", 300}}, 0s));
  EXPECT_EQ(network_rate({{"a", 0}}, {{"a", ~std::uint64_t{0}}}, 1s), 1'000'000'000'000'000);
}

TEST(HostLoad, OnlyInterfacesWithADeviceCountIfThereAreAny) {
  using namespace std::chrono_literals;
  const testing_support::TempDir root;
  const auto write = [&](int eth, int bridge) {
    constexpr std::string_view kZeros = "0 0 0 0 0 0 0 0 0 0 0 0 0 0 0";
    root.write("proc/net/dev", fmt::format("eth0: {} {}\nbr0: {} {}\n", eth, kZeros, bridge, kZeros));
  };
  HostLoadReader reader(root.path());
  const base::MonotonicTime begin{1h};
  write(1000, 5000);
  EXPECT_FALSE(reader.read(begin).has_network_bytes_per_second());
  write(3000, 9000);
  EXPECT_EQ(reader.read(begin + 2s).network_bytes_per_second(), 3000);
  std::filesystem::create_directories(root / "sys/class/net/eth0/device");
  write(5000, 99'000);
  EXPECT_EQ(reader.read(begin + 4s).network_bytes_per_second(), 1000);
  std::filesystem::remove(root / "proc/net/dev");
  EXPECT_FALSE(reader.read(begin + 6s).has_network_bytes_per_second());
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
  v1::HostLoad busy = well;
  busy.set_network_bytes_per_second(50 << 20);
  EXPECT_TRUE(is_noticeable(well, busy));
  other = busy;
  other.set_network_bytes_per_second(54 << 20);
  EXPECT_FALSE(is_noticeable(busy, other));
  other.set_network_bytes_per_second(55 << 20);
  EXPECT_TRUE(is_noticeable(busy, other));
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
