#include "agent/gpus/drm_clients.h"

#include <gtest/gtest.h>

#include "tests/unit/agent/gpus/gpu_tree.h"

namespace muster::agent::gpus::drm_clients_test {
namespace {

constexpr std::uint64_t kMib = 1ULL << 20;

// Before Linux 6.13, and since.
constexpr const char* kOldAmd =
    "pasid:\t32771\ndrm-driver:\tamdgpu\ndrm-pdev:\t0000:c1:00.0\ndrm-client-id:\t41\ndrm-memory-vram:\t2048 KiB\n"
    "drm-memory-gtt: \t64 KiB\ndrm-memory-cpu: \t0 KiB\namd-memory-visible-vram:\t2048 KiB\namd-requested-vram:\t4096 "
    "KiB\ndrm-engine-compute:\t123 ns\n";
constexpr const char* kNewAmd =
    "drm-driver:\tamdgpu\ndrm-client-id:\t41\ndrm-pdev:\t0000:c1:00.0\ndrm-total-cpu:\t0\ndrm-total-gtt:\t2 "
    "MiB\ndrm-total-vram:\t3 MiB\ndrm-shared-vram:\t0\ndrm-resident-vram:\t2 MiB\ndrm-purgeable-vram:\t0\n"
    "drm-memory-vram:\t2048 KiB\n";
constexpr const char* kI915 =
    "drm-driver:\ti915\ndrm-client-id:\t7\ndrm-pdev:\t0000:03:00.0\ndrm-total-system0:\t9 MiB\n"
    "drm-resident-system0:\t9 MiB\ndrm-total-local0:\t5 MiB\ndrm-shared-local0:\t0\ndrm-active-local0:\t0\n"
    "drm-resident-local0:\t4 MiB\ndrm-purgeable-local0:\t0\ndrm-total-stolen-local0:\t1 MiB\n"
    "drm-resident-stolen-local0:\t1 MiB\ndrm-engine-render:\t9288864723 ns\n";
constexpr const char* kXe =
    "drm-driver:\txe\ndrm-client-id:\t3\ndrm-pdev:\t0000:03:00.0\ndrm-total-gtt:\t192 KiB\n"
    "drm-resident-gtt:\t192 KiB\ndrm-total-vram0:\t23992 KiB\ndrm-shared-vram0:\t16 MiB\ndrm-resident-vram0:\t1024 "
    "KiB\ndrm-total-vram1:\t0\ndrm-resident-vram1:\t2 MiB\ndrm-cycles-rcs:\t28257900\n"
    "drm-total-cycles-rcs:\t7655183225\n";

TEST(DrmClients, OfEachDriver) {
  EXPECT_EQ(parse_drm_client(kOldAmd), (DrmClient{"0000:c1:00.0", 41, 2 * kMib}));
  EXPECT_EQ(parse_drm_client(kNewAmd), (DrmClient{"0000:c1:00.0", 41, 2 * kMib}));
  EXPECT_EQ(parse_drm_client(kI915), (DrmClient{"0000:03:00.0", 7, 4 * kMib}));
  EXPECT_EQ(parse_drm_client(kXe), (DrmClient{"0000:03:00.0", 3, 3 * kMib}));
}

TEST(DrmClients, WithoutMemoryKeysItIsNotKnown) {
  EXPECT_EQ(parse_drm_client("drm-driver: i915\ndrm-pdev: 0000:03:00.0\ndrm-client-id: 7\ndrm-engine-copy: 0 ns\n"),
            (DrmClient{"0000:03:00.0", 7, std::nullopt}));
  EXPECT_EQ(parse_drm_client("drm-pdev: 0000:03:00.0\ndrm-client-id: 7\ndrm-total-local0: 77\n"),
            (DrmClient{"0000:03:00.0", 7, 77}));
  // Units that nobody knows, and more than there can be.
  for (const char* const amount : {"3 GiB", "x", "", "-5", "99999999999999999999", "18446744073709551615 MiB"}) {
    EXPECT_EQ(
        parse_drm_client(fmt::format("drm-pdev: 0000:03:00.0\ndrm-client-id: 7\ndrm-resident-vram: {}\n", amount)),
        (DrmClient{"0000:03:00.0", 7, std::nullopt}))
        << amount;
  }
}

TEST(DrmClients, WhatIsNone) {
  for (const char* const other :
       {"", "pos:\t0\nflags:\t02\n", "drm-driver:\tvgem\ndrm-client-id:\t1\n", "drm-pdev:\t0000:03:00.0\n",
        "drm-pdev:\t\ndrm-client-id:\t1\n", "drm-pdev:\t0000:03:00.0\ndrm-client-id:\tx\n"}) {
    EXPECT_FALSE(parse_drm_client(other)) << other;
  }
}

// "pid/client", each with a blank behind it.
std::string users(const testing_support::GpuTree& tree, uid_t uid) {
  std::string text;
  for (const DrmUser& user : read_drm_users(uid, tree.path())) text += fmt::format("{}/{} ", user.pid, user.client.id);
  return text;
}

TEST(DrmClients, EachClientOnceAndOfTheFirstProcess) {
  const testing_support::GpuTree tree;
  const auto client = [](int id, const char* pci = "0000:03:00.0") {
    return fmt::format("drm-driver:\txe\ndrm-client-id:\t{}\ndrm-pdev:\t{}\ndrm-resident-vram0:\t1 MiB\n", id, pci);
  };
  tree.add_fd(200, 4, "/dev/dri/renderD128", client(1));
  tree.add_fd(200, 5, "/dev/dri/renderD128", client(1));  // dup
  tree.add_fd(200, 6, "/dev/dri/renderD129", client(1, "0000:04:00.0"));
  tree.add_fd(1000, 4, "/dev/dri/renderD128", client(1));  // inherited
  tree.add_fd(1000, 7, "/dev/dri/card0", client(2));
  tree.add_fd(1000, 8, "/dev/null", client(3));  // not looked into
  tree.write("proc/uptime", "1 2\n");
  EXPECT_EQ(users(tree, ::getuid()), "200/1 200/1 1000/2 ");
  EXPECT_EQ(users(tree, 0), "200/1 200/1 1000/2 ");
  EXPECT_EQ(users(tree, ::getuid() + 1), "");
}

}  // namespace
}  // namespace muster::agent::gpus::drm_clients_test
