#include "cli/top/host_order.h"

#include <gtest/gtest.h>

#include "tests/unit/cli/top/top_samples.h"

namespace muster::cli::host_order_test {
namespace {

using testing_support::top_host;
using Rows = std::vector<std::size_t>;

std::vector<v1::LauncherHost> hosts() {
  std::vector<v1::LauncherHost> made{top_host("n2", 10), top_host("n1", 90), top_host("n3", 50)};
  made[2].mutable_load()->clear_cpu_percent();
  made[0].set_used_slots(4);
  made[1].mutable_load()->set_memory_used_mib(60 * 1024);
  made[1].set_output_bytes_per_second(5);
  v1::GpuLoad* const gpu = made[2].mutable_load()->add_gpus();
  gpu->set_busy_percent(70);
  return made;
}

TEST(HostOrder, SortsByEachColumn) {
  EXPECT_EQ(ordered_hosts(hosts(), "", HostOrder::kList, false), (Rows{0, 1, 2}));
  EXPECT_EQ(ordered_hosts(hosts(), "", HostOrder::kName, false), (Rows{1, 0, 2}));
  EXPECT_EQ(ordered_hosts(hosts(), "", HostOrder::kSlots, false), (Rows{0, 1, 2}));
  EXPECT_EQ(ordered_hosts(hosts(), "", HostOrder::kCpu, false), (Rows{1, 0, 2})) << "unknown comes last";
  EXPECT_EQ(ordered_hosts(hosts(), "", HostOrder::kMemory, false), (Rows{1, 0, 2}));
  EXPECT_EQ(ordered_hosts(hosts(), "", HostOrder::kGpu, false), (Rows{2, 0, 1}));
  EXPECT_EQ(ordered_hosts(hosts(), "", HostOrder::kOutput, false), (Rows{1, 0, 2}));
  EXPECT_EQ(ordered_hosts(hosts(), "", HostOrder::kName, true), (Rows{2, 0, 1}));
}

TEST(HostOrder, FiltersByNameStateAndProblem) {
  std::vector<v1::LauncherHost> all = hosts();
  all[0].set_problem("no route to host");
  all[1].set_drained(true);
  EXPECT_EQ(ordered_hosts(all, "n3", HostOrder::kList, false), (Rows{2}));
  EXPECT_EQ(ordered_hosts(all, "ROUTE", HostOrder::kList, false), (Rows{0}));
  EXPECT_EQ(ordered_hosts(all, "drained up", HostOrder::kList, false), (Rows{1}));
  EXPECT_EQ(ordered_hosts(all, "zzz", HostOrder::kList, false), Rows());
}

TEST(HostOrder, EveryOrderHasAName) {
  for (int i = 0; i < kHostOrders; ++i) EXPECT_FALSE(name_of(static_cast<HostOrder>(i)).empty());
}

TEST(HostOrder, LoadOfGpusIsAnAverage) {
  v1::LauncherHost host = top_host("n1");
  EXPECT_EQ(gpu_percent(host), -1);
  host.mutable_load()->add_gpus()->set_busy_percent(20);
  host.mutable_load()->add_gpus()->set_busy_percent(40);
  host.mutable_load()->add_gpus()->set_busy_unknown(true);
  EXPECT_EQ(gpu_percent(host), 30);
}

}  // namespace
}  // namespace muster::cli::host_order_test
