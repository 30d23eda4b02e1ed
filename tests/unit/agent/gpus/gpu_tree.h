// Emulated: files of AMD's and Intel's GPUs in the forms in which Linux's drivers write them (amdkfd, amdgpu, i915, xe
// and Documentation/gpu/drm-usage-stats.rst). No GPU has written any of them.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include <fmt/format.h>

#include "tests/unit/support/temp_dir.h"

namespace muster::testing_support {

class GpuTree {
 public:
  // Of a process in the host's PID namespace, as nearly all are.
  GpuTree() { set_namespace("pid:[4026531836]"); }

  const std::string& path() const { return dir_.path(); }
  std::string operator/(const std::string& name) const { return dir_ / name; }
  void write(const std::string& name, const std::string& content) const { dir_.write(name, content); }
  void remove(const std::string& name) const { std::filesystem::remove_all(dir_ / name); }

  void set_namespace(const std::string& link) const {
    remove("proc/self/ns/pid");
    std::filesystem::create_directories(dir_ / "proc/self/ns");
    std::filesystem::create_symlink(link, dir_ / "proc/self/ns/pid");
  }

  // A GPU at 0000:<bus>:00.0 of the KFD driver.
  void add_amd(int node, int bus, std::uint64_t gpu_id) const {
    const std::string directory = fmt::format("sys/class/kfd/kfd/topology/nodes/{}", node);
    write(directory + "/properties",
          fmt::format("cpu_cores_count 0\nsimd_count 440\nlocation_id {}\ndomain 0\nunique_id {}\n", bus << 8, gpu_id));
    write(directory + "/gpu_id", fmt::format("{}\n", gpu_id));
    write(directory + "/name", "aldebaran\n");
    std::filesystem::create_directories(dir_ / "sys/class/kfd/kfd/proc");
  }
  void set_vram(int bus, std::uint64_t total, std::uint64_t used) const {
    const std::string device = fmt::format("sys/bus/pci/devices/0000:{:02x}:00.0", bus);
    write(device + "/mem_info_vram_total", fmt::format("{}\n", total));
    write(device + "/mem_info_vram_used", fmt::format("{}\n", used));
  }
  static std::string kfd_process(pid_t pid) { return fmt::format("sys/class/kfd/kfd/proc/{}", pid); }
  void add_kfd_process(pid_t pid, std::uint64_t gpu_id, std::uint64_t bytes) const {
    write(fmt::format("{}/vram_{}", kfd_process(pid), gpu_id), fmt::format("{}\n", bytes));
    write(fmt::format("{}/sdma_{}", kfd_process(pid), gpu_id), "0\n");
    write(kfd_process(pid) + "/pasid", "32769\n");
  }

  void add_intel(const std::string& card, int bus, const std::string& kind = "0x038000") const {
    const std::string device = fmt::format("sys/class/drm/{}/device/", card);
    write(device + "vendor", "0x8086\n");
    write(device + "class", kind + "\n");
    write(device + "uevent", fmt::format("DRIVER=xe\nPCI_CLASS=38000\nPCI_SLOT_NAME=0000:{:02x}:00.0\n", bus));
  }

  // An open file of a process of this user.
  void add_fd(pid_t pid, int fd, const std::string& target, const std::string& info) const {
    const std::string process = fmt::format("proc/{}", pid);
    std::filesystem::create_directories(dir_ / (process + "/fd"));
    std::filesystem::create_symlink(target, dir_ / fmt::format("{}/fd/{}", process, fd));
    write(fmt::format("{}/fdinfo/{}", process, fd), "pos:\t0\nflags:\t02100002\nmnt_id:\t26\nino:\t685\n" + info);
  }

 private:
  const TempDir dir_;
};

}  // namespace muster::testing_support
