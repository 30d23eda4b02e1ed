#include "agent/gpus/helper/file_survey.h"

#include <gtest/gtest.h>

#include "tests/unit/agent/gpus/gpu_tree.h"

namespace muster::agent::gpus::file_survey_test {
namespace {

constexpr std::uint64_t kMib = 1ULL << 20;
constexpr std::uint64_t kGib = 1ULL << 30;

std::string client(int bus, int id, const std::string& memory) {
  return fmt::format("drm-client-id:\t{}\ndrm-pdev:\t0000:{:02x}:00.0\n{}\n", id, bus, memory);
}

TEST(FileSurvey, NothingIsThere) {
  const testing_support::GpuTree tree;
  tree.add_fd(10, 3, "/dev/dri/card0", client(3, 1, "drm-resident-vram: 1 MiB"));  // a screen's
  EXPECT_TRUE(survey_files(::getuid(), tree.path()).empty());
}

TEST(FileSurvey, AmdsByKfdAndDrm) {
  const testing_support::GpuTree tree;
  tree.add_amd(1, 0xc1, 4711);
  tree.add_amd(2, 0xc2, 4712);
  tree.set_vram(0xc1, 64 * kGib, 3 * kGib);
  tree.write("sys/bus/pci/devices/0000:c1:00.0/gpu_busy_percent", "63\n");
  tree.write("sys/bus/pci/devices/0000:c2:00.0/gpu_busy_percent", "1000\n");  // nonsense
  tree.add_kfd_process(100, 4711, kGib);                                      // another user's, or one that has ended
  tree.add_kfd_process(100, 4712, 0);                                         // KFD has opened all GPUs for it
  tree.add_kfd_process(200, 4711, 500 * kMib);
  tree.write("sys/class/kfd/kfd/proc/self/vram_4711", "5\n");  // no number
  // The same process and memory, as newer kernels tell it as well; and one that draws.
  tree.add_fd(200, 5, "/dev/dri/renderD128", client(0xc1, 7, "drm-memory-vram: 512 MiB"));
  tree.add_fd(200, 6, "/dev/dri/renderD128", client(0xc1, 8, "drm-memory-vram: 0 KiB"));
  tree.add_fd(300, 5, "/dev/dri/renderD129", client(0xc2, 7, "drm-memory-vram: 3 MiB"));
  tree.add_fd(300, 6, "/dev/dri/renderD129", client(0xc2, 8, "drm-memory-vram: 1 MiB"));
  const std::vector<FileGpu> expected = {
      {.index = 0,
       .pci = "0000:c1:00.0",
       .memory_used = 3 * kGib,
       .busy_percent = 63,
       .shows_all = true,
       .shows_dead = true,
       .processes = {{.pid = 100, .memory = kGib}, {.pid = 200, .memory = 512 * kMib}}},
      {.index = 1,
       .pci = "0000:c2:00.0",
       .shows_all = true,
       .shows_dead = true,
       .processes = {{.pid = 300, .memory = 4 * kMib}}}};
  EXPECT_EQ(survey_files(::getuid(), tree.path()), expected);
}

TEST(FileSurvey, InAContainerKfdsNumbersAreTheHosts) {
  const testing_support::GpuTree tree;
  tree.set_namespace("pid:[4026532837]");
  tree.add_amd(1, 0xc1, 4711);
  tree.add_kfd_process(100, 4711, kGib);
  tree.add_fd(1, 5, "/dev/dri/renderD128", client(0xc1, 7, "drm-memory-vram: 1024 MiB"));  // the same process
  const auto gpus = survey_files(::getuid(), tree.path());
  ASSERT_EQ(gpus.size(), 1u);
  EXPECT_TRUE(gpus[0].foreign_pids);
  EXPECT_EQ(gpus[0].processes, (std::vector<GpuProcess>{{.pid = 100, .memory = kGib}}));
}

// Then the living are seen as DRM tells them, by our own numbers.
TEST(FileSurvey, AKernelWhoseKfdListsNobody) {
  const testing_support::GpuTree tree;
  tree.set_namespace("pid:[4026532837]");
  tree.add_amd(1, 0xc1, 4711);
  tree.remove("sys/class/kfd/kfd/proc");
  tree.add_fd(7, 5, "/dev/dri/renderD128", client(0xc1, 7, "drm-memory-vram: 1024 MiB"));
  EXPECT_EQ(survey_files(::getuid(), tree.path()),
            (std::vector<FileGpu>{{.pci = "0000:c1:00.0", .processes = {{.pid = 7, .memory = kGib}}}}));
}

TEST(FileSurvey, DrmShowsAllToRootOutsideOfContainers) {
  const testing_support::GpuTree tree;
  tree.add_amd(1, 0xc1, 4711);
  tree.remove("sys/class/kfd/kfd/proc");
  tree.add_intel("card0", 4);
  const auto show_all = [&](uid_t uid) {
    std::vector<bool> gpus;
    for (const FileGpu& gpu : survey_files(uid, tree.path())) gpus.push_back(gpu.shows_all);
    return gpus;
  };
  EXPECT_EQ(show_all(0), (std::vector{true, true}));
  EXPECT_EQ(show_all(1000), (std::vector{false, false}));
  tree.set_namespace("pid:[4026532837]");
  EXPECT_EQ(show_all(0), (std::vector{false, false}));
}

TEST(FileSurvey, OfPartitionsOnlyWhatKfdTells) {
  const testing_support::GpuTree tree;
  tree.add_amd(1, 0xc1, 4711);
  tree.add_amd(2, 0xc1, 4712);
  tree.set_vram(0xc1, 64 * kGib, 3 * kGib);
  tree.add_kfd_process(100, 4712, kGib);
  tree.add_fd(100, 5, "/dev/dri/renderD129", client(0xc1, 7, "drm-memory-vram: 1024 MiB"));
  const auto gpus = survey_files(::getuid(), tree.path());
  ASSERT_EQ(gpus.size(), 2u);
  EXPECT_TRUE(gpus[0].processes.empty());
  EXPECT_EQ(gpus[1].processes, (std::vector<GpuProcess>{{.pid = 100, .memory = kGib}}));
  EXPECT_FALSE(gpus[1].memory_used);
}

TEST(FileSurvey, IntelsByDrmAlone) {
  const testing_support::GpuTree tree;
  tree.set_namespace("pid:[4026532837]");  // DRM's numbers are of the /proc that is read
  tree.add_intel("card1", 3);
  tree.add_intel("card0", 4);
  tree.add_intel("card2", 0, "0x030000");  // a processor's own
  tree.write("sys/class/drm/card1/lmem_total_bytes", fmt::format("{}\n", 16 * kGib));
  tree.write("sys/class/drm/card1/lmem_avail_bytes", fmt::format("{}\n", 15 * kGib));
  tree.add_fd(10, 3, "/dev/dri/renderD128", client(3, 1, "drm-resident-vram0: 1 MiB\ndrm-resident-vram1: 2 MiB"));
  tree.add_fd(11, 3, "/dev/dri/renderD128", client(3, 2, "drm-engine-copy: 0 ns"));  // an old kernel's
  tree.add_fd(12, 3, "/dev/dri/renderD129", client(4, 1, "drm-resident-local0: 0"));
  const auto gpus = survey_files(::getuid(), tree.path());
  ASSERT_EQ(gpus.size(), 2u);
  EXPECT_EQ(gpus[0], (FileGpu{.is_intel = true,
                              .index = 0,
                              .pci = "0000:03:00.0",
                              .memory_used = kGib,
                              .processes = {{.pid = 10, .memory = 3 * kMib}, {.pid = 11}}}));
  EXPECT_EQ(gpus[1], (FileGpu{.is_intel = true, .index = 1, .pci = "0000:04:00.0"}));
}

}  // namespace
}  // namespace muster::agent::gpus::file_survey_test
