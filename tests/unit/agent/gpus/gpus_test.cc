#include "agent/gpus/gpus.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/unit/support/temp_dir.h"

namespace muster::agent::gpus_test {
namespace {

// Emulated: the files of a host with GPUs, in the forms in which the drivers write them.
class Gpus : public ::testing::Test {
 protected:
  Gpus() {
    for (int cpu = 0; cpu < 4; ++cpu) node_.cores.push_back({cpu / 2, cpu / 2, {cpu}});
  }

  void add_pci(const std::string& address, const std::string& numa, const std::string& cpus) const {
    root_.write("sys/bus/pci/devices/" + address + "/numa_node", numa + "\n");
    root_.write("sys/bus/pci/devices/" + address + "/local_cpulist", cpus + "\n");
  }

  void add_nvidia(const std::string& address, const std::string& uuid, const std::string& excluded = "No") const {
    root_.write("proc/driver/nvidia/gpus/" + address + "/information",
                "Model: \t\t NVIDIA A100-SXM4-40GB\nIRQ:   \t\t 325\nGPU UUID: \t " + uuid +
                    "\nVideo BIOS: \t 92.00.19.00.10\nBus Type: \t PCIe\nDMA Size: \t 47 bits\nDMA Mask: \t "
                    "0x7fffffffffff\nBus Location: \t " +
                    address + "\nDevice Minor: \t 3\nGPU Excluded:\t " + excluded + "\n");
  }

  void add_kfd(int number, const std::string& properties, const std::string& name) const {
    const std::string directory = "sys/class/kfd/kfd/topology/nodes/" + std::to_string(number);
    root_.write(directory + "/properties", properties);
    root_.write(directory + "/name", name + "\n");
  }

  void add_drm(const std::string& card, const std::string& address, const std::string& kind) const {
    const std::string device = "sys/class/drm/" + card + "/device/";
    root_.write(device + "vendor", "0x8086\n");
    root_.write(device + "class", kind + "\n");
    root_.write(device + "uevent", "DRIVER=i915\nPCI_CLASS=38000\nPCI_SLOT_NAME=" + address + "\n");
  }

  // "vendor index uuid model pci numa:cpus", a line each.
  std::string found() const {
    std::string text;
    for (const model::GpuShape& gpu : find_gpus(node_, root_.path())) {
      const char* vendor = gpu.vendor == model::GpuVendor::kIntel ? "intel"
                           : gpu.vendor == model::GpuVendor::kAmd ? "amd"
                                                                  : "nvidia";
      text += fmt::format("{}{} {} '{}' {} {}:{}{}\n", vendor, gpu.index, gpu.uuid.empty() ? "?" : gpu.uuid, gpu.model,
                          gpu.pci, gpu.numa, model::format_cpu_list(gpu.cpus),
                          gpu.tiles > 1 ? fmt::format(" {} tiles", gpu.tiles) : "");
    }
    return text;
  }

  testing_support::TempDir root_;
  model::NodeShape node_;
};

TEST_F(Gpus, NoDriverNoGpus) {
  EXPECT_EQ(found(), "");
}

TEST_F(Gpus, NvidiaInTheOrderOfTheBus) {
  add_nvidia("0000:87:00.0", "GPU-bbbbbbbb-0000-1111-2222-333333333333");
  add_nvidia("0000:07:00.0", "GPU-aaaaaaaa-0000-1111-2222-333333333333");
  add_pci("0000:07:00.0", "3", "2-3,6-7");  // CPUs 6 and 7 are not ours, and hwloc counts that node as its second
  add_pci("0000:87:00.0", "0", "0-1");
  EXPECT_EQ(found(),
            "nvidia0 GPU-aaaaaaaa-0000-1111-2222-333333333333 'NVIDIA A100-SXM4-40GB' 0000:07:00.0 1:2-3,6-7\n"
            "nvidia1 GPU-bbbbbbbb-0000-1111-2222-333333333333 'NVIDIA A100-SXM4-40GB' 0000:87:00.0 0:0-1\n");
}

TEST_F(Gpus, WhatTheKernelDoesNotKnowStaysOut) {
  const std::string four(4, '?');
  add_nvidia("0000:07:00.0", fmt::format("GPU-{0}{0}-{0}-{0}-{0}-{0}{0}{0}", four));
  add_pci("0000:07:00.0", "-1", "0-3");  // a virtual machine: no word about nodes
  add_nvidia("0000:08:00.0", "GPU-b", "Yes");
  add_nvidia("0000:09:00.0", "GPU-c");
  EXPECT_EQ(found(),
            "nvidia0 ? 'NVIDIA A100-SXM4-40GB' 0000:07:00.0 -1:\n"
            "nvidia1 GPU-c 'NVIDIA A100-SXM4-40GB' 0000:09:00.0 -1:\n");
}

TEST_F(Gpus, AmdInTheOrderOfTheNodes) {
  add_kfd(0, "cpu_cores_count 64\nsimd_count 0\nlocation_id 0\n", "");
  add_kfd(10, "cpu_cores_count 0\nsimd_count 440\nlocation_id 49408\ndomain 1\nunique_id 1311768467463790320\n",
          "aldebaran");
  add_kfd(2, "cpu_cores_count 0\nsimd_count 440\nlocation_id 25857\ndomain 0\nunique_id 0\n", "vega20");
  root_.write("sys/class/kfd/kfd/topology/nodes/3/properties", "");  // kept from us by a cgroup
  add_pci("0001:c1:00.0", "1", "2-3");
  EXPECT_EQ(found(),
            "amd0 ? 'vega20' 0000:65:00.1 -1:\n"
            "amd1 GPU-123456789abcdef0 'aldebaran' 0001:c1:00.0 1:2-3\n");
}

TEST_F(Gpus, MemoryWhereTheDriverTellsIt) {
  add_kfd(1, "simd_count 440\nlocation_id 49408\ndomain 0\n", "aldebaran");
  root_.write("sys/bus/pci/devices/0000:c1:00.0/mem_info_vram_total", "68702699520\n");
  add_drm("card0", "0000:18:00.0", "0x038000");
  add_drm("card1", "0001:18:00.0", "0x038000");
  root_.write("sys/class/drm/card1/lmem_total_bytes", "137438953472\n");
  const auto gpus = find_gpus(node_, root_.path());
  ASSERT_EQ(gpus.size(), 3u);
  EXPECT_EQ(gpus[0].memory_mib, 65'520);
  EXPECT_EQ(gpus[1].memory_mib, 0);
  EXPECT_EQ(gpus[2].memory_mib, 131'072);
}

TEST(GpuQuestion, AboutWhatTheHostHas) {
  v1::Hello hello;
  EXPECT_EQ(question_about(hello, false), (gpus::Question{.nvidia = false}));
  EXPECT_EQ(question_about(hello, true), gpus::Question()) << "its library has failed, and may do better later";
  hello.set_gpu_driver("550");
  EXPECT_EQ(question_about(hello, false), gpus::Question());
  hello.add_gpus()->set_vendor(v1::GPU_VENDOR_INTEL);
  EXPECT_EQ(question_about(hello, false), (gpus::Question{.files = true}));
}

TEST_F(Gpus, IntelWithTheTilesOfEitherDriver) {
  add_drm("card1", "0001:18:00.0", "0x038000");
  add_drm("card2", "0000:18:00.0", "0x038000");
  add_drm("card10", "0002:18:00.0", "0x038000");
  add_drm("card0", "0000:00:02.0", "0x030000");  // a processor's own
  root_.write("sys/class/drm/card1-DP-1/status", "disconnected\n");
  for (const char* gt : {"gt0", "gt1"}) root_.write(std::string("sys/class/drm/card1/gt/") + gt + "/id", "0\n");
  for (const char* tile : {"tile0", "tile1"}) {
    root_.write(std::string("sys/class/drm/card2/device/") + tile + "/gt0/id", "0\n");
  }
  root_.write("sys/class/drm/renderD128/device/vendor", "0x8086\n");
  add_pci("0001:18:00.0", "1", "2-3");
  EXPECT_EQ(found(),
            "intel0 ? '' 0000:18:00.0 -1: 2 tiles\n"
            "intel1 ? '' 0001:18:00.0 1:2-3 2 tiles\n"
            "intel2 ? '' 0002:18:00.0 -1:\n");
}

}  // namespace
}  // namespace muster::agent::gpus_test
