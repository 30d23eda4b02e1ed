#include "agent/proc/mpich_memory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "base/directory.h"

namespace muster::agent::inline proc {
namespace {

constexpr std::string_view kPrefixes[] = {"mpich_shm_", "mpich_vci_"};

// Returns "5d1ce079" for "mpich_shm_5d1ce079_0". Empty for any other name.
std::string world_in_name(std::string_view name) {
  for (const std::string_view prefix : kPrefixes) {
    if (!name.starts_with(prefix)) continue;
    const auto end = name.find('_', prefix.size());
    if (end != std::string_view::npos) return std::string(name.substr(prefix.size(), end - prefix.size()));
  }
  return "";
}

}  // namespace

std::string mpich_world(std::string_view kvs_name) {
  std::uint32_t hash = 2166136261U;
  for (const char c : kvs_name) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 16777619U;
  }
  return fmt::format("{:x}", hash);
}

base::Status remove_mpich_memory(const std::string& directory, std::string_view kvs_name) {
  const std::string world = mpich_world(kvs_name);
  for (const std::string& name : base::entries_of(directory)) {
    if (world_in_name(name) != world) continue;
    const std::string path = fmt::format("{}/{}", directory, name);
    struct stat info {};
    const bool is_ours = ::lstat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == ::geteuid();
    if (is_ours && ::unlink(path.c_str()) != 0 && errno != ENOENT) {
      return base::errno_error(errno, fmt::format("remove {}", path));
    }
  }
  return base::ok_status();
}

}  // namespace muster::agent::proc
