#include "agent/service/gpu_names.h"

#include <gtest/gtest.h>

namespace muster::agent {
namespace {

using gpus::FileGpu;
using gpus::NvidiaGpu;
using model::GpuShape;
using model::GpuVendor;

TEST(GpuNames, AreThoseOfTheStart) {
  const std::vector<GpuShape> known = {{.index = 0, .uuid = "GPU-a", .pci = "0000:01:00.0"},
                                       {.index = 1, .uuid = "GPU-b", .pci = "0000:02:00.0"},
                                       {.index = 2, .pci = "0000:03:00.0"}};
  EXPECT_EQ(name_of(NvidiaGpu{.uuid = "GPU-b"}, 0, known), (GpuName{GpuVendor::kNvidia, 1}));
  EXPECT_EQ(name_of(NvidiaGpu{.uuid = "GPU-c", .pci = "0000:03:00.0"}, 0, known), (GpuName{GpuVendor::kNvidia, 2}));
  // Another one in a known one's slot.
  EXPECT_EQ(name_of(NvidiaGpu{.uuid = "GPU-d", .pci = "0000:01:00.0"}, 0, known),
            (GpuName{GpuVendor::kNvidia, -1, "GPU-d"}));
  // A library that failed then: it counts as it would have.
  EXPECT_EQ(name_of(NvidiaGpu{.uuid = "GPU-d"}, 3, {}), (GpuName{GpuVendor::kNvidia, 3}));
}

TEST(GpuNames, OfGpusInFiles) {
  const std::vector<GpuShape> known = {{.vendor = GpuVendor::kAmd, .index = 0, .pci = "0000:c1:00.0"},
                                       {.vendor = GpuVendor::kAmd, .index = 1, .pci = "0000:c2:00.0"},
                                       {.vendor = GpuVendor::kAmd, .index = 2, .pci = "0000:c2:00.0"},
                                       {.vendor = GpuVendor::kIntel, .index = 0, .pci = "0000:03:00.0"},
                                       {.vendor = GpuVendor::kIntel, .index = 1, .pci = "0000:04:00.0"}};
  const auto amd = [&](int index, const char* pci) { return name_of(FileGpu{.index = index, .pci = pci}, known); };
  EXPECT_EQ(amd(2, "0000:c2:00.0"), (GpuName{GpuVendor::kAmd, 2}));
  // The first one has been taken out.
  EXPECT_EQ(amd(0, "0000:c2:00.0"), (GpuName{GpuVendor::kAmd, -1, "0000:c2:00.0"})) << "one of two parts";
  EXPECT_EQ(name_of(FileGpu{.is_intel = true, .index = 0, .pci = "0000:04:00.0"}, known),
            (GpuName{GpuVendor::kIntel, 1}));
}

TEST(GpuNames, InWords) {
  EXPECT_EQ(text_of({GpuVendor::kNvidia, 3}), "GPU 3");
  EXPECT_EQ(text_of({GpuVendor::kNvidia, 3, "MIG-a"}), "MIG-a of GPU 3");
  EXPECT_EQ(text_of({GpuVendor::kNvidia, -1, "GPU-a"}), "GPU-a");
  EXPECT_EQ(text_of({GpuVendor::kAmd, 0}), "AMD GPU 0");
  EXPECT_EQ(text_of({GpuVendor::kIntel, -1, "0000:03:00.0"}), "the Intel GPU at 0000:03:00.0");
}

}  // namespace
}  // namespace muster::agent
