#include "agent/probe/gpu_users.h"

#include <unistd.h>

#include <gtest/gtest.h>

namespace muster::agent::gpu_users_test {
namespace {

v1::Hello hello_with(std::initializer_list<std::pair<v1::GpuVendor, const char*>> gpus) {
  v1::Hello hello;
  for (const auto& [vendor, uuid] : gpus) {
    int index = 0;
    for (const v1::Gpu& gpu : hello.gpus()) index += gpu.vendor() == vendor ? 1 : 0;
    v1::Gpu& gpu = *hello.add_gpus();
    gpu.set_vendor(vendor);
    gpu.set_index(index);
    gpu.set_uuid(uuid);
  }
  return hello;
}

TEST(GpuUsersOfAHost, WhoHasWhat) {
  const v1::Hello hello =
      hello_with({{v1::GPU_VENDOR_NVIDIA, "GPU-a"}, {v1::GPU_VENDOR_NVIDIA, "GPU-b"}, {v1::GPU_VENDOR_AMD, ""}});
  gpus::GpuReport report{.driver = "550"};
  report.gpus.push_back({.uuid = "GPU-b",
                         .is_divided = true,
                         .parts = {{.uuid = "MIG-1", .processes = {{.pid = ::getpid(), .memory = 5 << 20}}}},
                         .processes = {{.pid = ::getpid()}}});
  report.others.push_back({.shows_all = true, .foreign_pids = true, .processes = {{.pid = ::getpid()}}});
  const auto users = find_gpu_users(report, hello);
  ASSERT_EQ(users.size(), 2u);
  EXPECT_EQ(users[0].gpu(), 1) << "as the Hello counts";
  EXPECT_EQ(users[0].part(), "MIG-1");
  EXPECT_EQ(users[0].memory_mib(), 5);
  EXPECT_FALSE(users[0].has_ended() || users[0].is_foreign());
  EXPECT_EQ(users[0].uid(), ::getuid());
  EXPECT_NE(users[0].command(), "");
  EXPECT_EQ(users[1].vendor(), v1::GPU_VENDOR_AMD);
  EXPECT_TRUE(users[1].is_foreign());
  EXPECT_FALSE(users[1].has_ended()) << "it may live";
  EXPECT_EQ(users[1].command(), "") << "of another process, with that number here";
}

TEST(GpuUsersOfAHost, AreNotMoreThanAScreenNeeds) {
  gpus::GpuReport report{.driver = "550", .gpus = {{.uuid = "GPU-a"}}};
  for (int pid = 1; pid <= 1000; ++pid) report.gpus[0].processes.push_back({.pid = pid});
  EXPECT_EQ(find_gpu_users(report, {}).size(), 256u);
}

TEST(GpuUsersOfAHost, OfWhichNothingIsTold) {
  const v1::Hello hello = hello_with({{v1::GPU_VENDOR_NVIDIA, "GPU-a"},
                                      {v1::GPU_VENDOR_NVIDIA, "GPU-b"},
                                      {v1::GPU_VENDOR_NVIDIA, "GPU-lost"},
                                      {v1::GPU_VENDOR_AMD, ""},
                                      {v1::GPU_VENDOR_INTEL, ""}});
  gpus::GpuReport report{.driver = "550"};
  report.gpus = {{.uuid = "GPU-a", .knows_processes = true}, {.uuid = "GPU-b"}};
  report.others = {{.shows_all = true}, {.is_intel = true}};
  std::string text;
  for (const v1::UntoldGpu& gpu : find_unreported_gpus(report, hello)) {
    text += fmt::format("{} {}{};", static_cast<int>(gpu.vendor()), gpu.index(), gpu.own_only() ? " own" : "");
  }
  EXPECT_EQ(text, "1 1;1 2;3 0 own;");
  EXPECT_EQ(find_unreported_gpus({}, hello).size(), 5u) << "nobody has answered";
}

}  // namespace
}  // namespace muster::agent::gpu_users_test
