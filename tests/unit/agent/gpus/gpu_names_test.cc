#include "agent/gpus/gpu_names.h"

#include <gtest/gtest.h>

namespace muster::agent::gpu_names_test {
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
  const auto names = [&](const std::vector<FileGpu>& seen) {
    std::vector<GpuName> found;
    for (const FileGpu& gpu : seen) found.push_back(name_of(gpu, seen, known));
    return found;
  };
  const auto amd = [](int index, const char* pci) { return FileGpu{.index = index, .pci = pci}; };
  const GpuName of_c2{GpuVendor::kAmd, -1, "0000:c2:00.0"};
  EXPECT_EQ(names({amd(0, "0000:c1:00.0"), amd(1, "0000:c2:00.0"), amd(2, "0000:c2:00.0")}),
            (std::vector<GpuName>{{GpuVendor::kAmd, 0}, {GpuVendor::kAmd, 1}, {GpuVendor::kAmd, 2}}));
  // The first one has been taken out.
  EXPECT_EQ(names({amd(0, "0000:c2:00.0"), amd(1, "0000:c2:00.0")}),
            (std::vector<GpuName>{{GpuVendor::kAmd, 1}, {GpuVendor::kAmd, 2}}));
  EXPECT_EQ(names({{.is_intel = true, .index = 0, .pci = "0000:04:00.0"}}),
            (std::vector<GpuName>{{GpuVendor::kIntel, 1}}));
  // A device is divided otherwise: which part is which nobody can say.
  EXPECT_EQ(names({amd(0, "0000:c1:00.0"), amd(1, "0000:c2:00.0")}),
            (std::vector<GpuName>{{GpuVendor::kAmd, 0}, of_c2}));
  EXPECT_EQ(names({amd(0, "0000:c1:00.0"), amd(1, "0000:c1:00.0")})[0], (GpuName{GpuVendor::kAmd, -1, "0000:c1:00.0"}));
  // A new one, and files of a driver that was not there at the start.
  EXPECT_EQ(names({amd(0, "0000:c3:00.0")}), (std::vector<GpuName>{{GpuVendor::kAmd, -1, "0000:c3:00.0"}}));
  EXPECT_EQ(name_of(amd(3, "0000:c2:00.0"), {}, {}), (GpuName{GpuVendor::kAmd, 3}));
}

TEST(GpuNames, InWords) {
  EXPECT_EQ(text_of({GpuVendor::kNvidia, 3}), "GPU 3");
  EXPECT_EQ(text_of({GpuVendor::kNvidia, 3, "MIG-a"}), "MIG-a of GPU 3");
  EXPECT_EQ(text_of({GpuVendor::kNvidia, -1, "GPU-a"}), "GPU-a");
  EXPECT_EQ(text_of({GpuVendor::kAmd, 0}), "AMD GPU 0");
  EXPECT_EQ(text_of({GpuVendor::kIntel, -1, "0000:03:00.0"}), "the Intel GPU at 0000:03:00.0");
}

}  // namespace
}  // namespace muster::agent::gpu_names_test
