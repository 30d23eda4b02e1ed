// Who has a GPU's DRM device open, and how much of its memory, as /proc/<pid>/fdinfo tells it: Linux's
// Documentation/gpu/drm-usage-stats.rst, written by amdgpu, i915 and xe. A process is seen only while it lives. Reading
// waits for locks of the driver, and so may hang with it. Plain functions.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::agent::inline gpus {

struct DrmClient {
  std::string pci{};                      // "0000:c1:00.0"
  std::uint64_t id = 0;                   // one for each time that the device was opened, unique for its GPU
  std::optional<std::uint64_t> memory{};  // bytes on the GPU itself; nullopt: the driver does not tell, as older ones

  bool operator==(const DrmClient&) const = default;
};

// Of one fdinfo file; nullopt: it is of no GPU, or does not say which it is and who.
std::optional<DrmClient> parse_drm_client(std::string_view fdinfo);

struct DrmUser {
  pid_t pid = 0;  // as `root`'s /proc numbers it
  DrmClient client;
};

// By pid, each client once: one that several processes hold is the first one's. Those of `uid`, or with 0 of all:
// others' are not shown to it.
std::vector<DrmUser> read_drm_users(uid_t uid, const std::string& root = "");

}  // namespace muster::agent::gpus
