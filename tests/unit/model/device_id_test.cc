#include "model/device_id.h"

#include <gtest/gtest.h>

namespace muster::model::device_id_test {
namespace {

TEST(DeviceId, TilesAreOfTheirGpu) {
  EXPECT_TRUE(is_same_device("intel:3", "intel:3.1"));
  EXPECT_TRUE(is_same_device("intel:3.1", "intel:3"));
  EXPECT_FALSE(is_same_device("intel:3.1", "intel:3.0"));
  EXPECT_FALSE(is_same_device("intel:1", "intel:10"));
  EXPECT_FALSE(is_same_device("GPU-1", "GPU-1.2"));
}

// One of NVIDIA's that is known, one without a UUID, a divided one, and one of AMD's.
NodeShape node() {
  NodeShape node;
  node.gpus.push_back({.index = 0, .uuid = "GPU-0", .memory_mib = 1000});
  node.gpus.push_back({.index = 1});
  node.gpus.push_back({.index = 2,
                       .uuid = "GPU-2",
                       .memory_mib = 1000,
                       .is_divided = true,
                       .parts = {{.uuid = "MIG-a"}, {.uuid = "MIG-b"}}});
  node.gpus.push_back({.vendor = GpuVendor::kAmd, .index = 0, .uuid = "GPU-amd"});
  return node;
}

void expect_may_be_same(const std::string& id, const std::string& other, bool expected) {
  EXPECT_EQ(may_be_same_device(node(), id, other), expected) << id << " " << other;
  EXPECT_EQ(may_be_same_device(node(), other, id), expected) << other << " " << id;
}

TEST(DeviceId, ANumberOfCudasOwnIsAnyOfNvidias) {
  for (const char* const other : {"GPU-0", "GPU-9", "nvidia:1", "MIG-a", "cuda:0"}) {
    expect_may_be_same("cuda:0", other, true);
  }
  expect_may_be_same("cuda:0", "cuda:1", false);
  expect_may_be_same("cuda:0", "amd:0", false);
  expect_may_be_same("cuda:0", "intel:0", false);
}

TEST(DeviceId, OneNameIsOfWhatIsNotKnownByTheOther) {
  expect_may_be_same("nvidia:1", "GPU-9", true);
  expect_may_be_same("nvidia:1", "GPU-0", false);
  expect_may_be_same("nvidia:0", "GPU-0", true);  // its UUID was not known
  expect_may_be_same("nvidia:0", "nvidia:1", false);
  expect_may_be_same("GPU-0", "GPU-9", false);
  expect_may_be_same("nvidia:1", "MIG-x", true);
  expect_may_be_same("GPU-0", "MIG-x", false);  // its parts are known: it has none
  expect_may_be_same("GPU-2", "MIG-a", true);
  expect_may_be_same("nvidia:1", "MIG-a", false);
  expect_may_be_same("MIG-a", "MIG-b", false);
  expect_may_be_same("amd:0", "GPU-0", false);
}

TEST(GpuText, AsAUserCallsIt) {
  EXPECT_EQ(gpu_text(GpuVendor::kNvidia, 3), "GPU 3");
  EXPECT_EQ(gpu_text(GpuVendor::kAmd, 0), "AMD GPU 0");
  EXPECT_EQ(gpu_text(GpuVendor::kNvidia, 1, "MIG-a"), "MIG-a of GPU 1");
}

}  // namespace
}  // namespace muster::model::device_id_test
