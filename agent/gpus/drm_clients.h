// Lists the processes that have a GPU's DRM device open, and how much of its memory each uses, from
// /proc/<pid>/fdinfo.
// Format: Linux's Documentation/gpu/drm-usage-stats.rst, as amdgpu, i915 and xe write it.
// A process is listed only while it lives. Reading waits for locks of the driver, and so may hang with it. Plain
// functions.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::agent::inline gpus {

struct DrmClient {
  std::string pci{};     // "0000:c1:00.0"
  std::uint64_t id = 0;  // id of one opening of the device; unique for its GPU
  // Bytes on the GPU itself. nullopt if the driver does not report it; older drivers do not.
  std::optional<std::uint64_t> memory{};

  bool operator==(const DrmClient&) const = default;
};

// Parses one fdinfo file. nullopt if it is not of a GPU, or does not name the GPU and the client.
std::optional<DrmClient> parse_drm_client(std::string_view fdinfo);

struct DrmUser {
  pid_t pid = 0;  // the pid that <root>/proc shows, which may be another PID namespace's
  DrmClient client;
};

// Users in the order of their pids. A client that several processes hold is listed once, for the first one. Lists the
// processes of `uid`; 0 lists all. The kernel hides other users' clients from an ordinary user.
std::vector<DrmUser> read_drm_users(uid_t uid, const std::string& root = "");

}  // namespace muster::agent::gpus
