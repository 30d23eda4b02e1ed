// The class Cgroup and the pure functions that find a process's cgroup. Read find_own_cgroup() first, then
// Cgroup::create().
// The helpers at the top parse mountinfo and /proc/self/cgroup, and walk the groups below a cgroup.

#include "agent/proc/cgroup.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <memory>

#include "base/file.h"
#include "base/strings.h"

namespace muster::agent::inline proc {
namespace {

constexpr int kRemoveTries = 1000;  // one each millisecond
constexpr std::size_t kKeyedBytes = 64 << 10;

// mountinfo writes blanks, tabs and backslashes of paths as octal numbers.
std::string unescape(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      plain += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

struct Mount {
  std::string root;
  std::string point;
};

std::optional<Mount> find_cgroup2_mount(const std::string& mountinfo) {
  for (const std::string_view line : base::split(mountinfo, '\n')) {
    const std::size_t dash = line.find(" - ");
    if (dash == std::string_view::npos || !line.substr(dash + 3).starts_with("cgroup2 ")) continue;
    const auto fields = base::split(line.substr(0, dash), ' ');
    if (fields.size() >= 5) return Mount{unescape(fields[3]), unescape(fields[4])};
  }
  return std::nullopt;
}

std::optional<std::string> find_own_path(const std::string& self_cgroup) {
  for (const std::string_view line : base::split(self_cgroup, '\n')) {
    if (line.starts_with("0::/")) return std::string(line.substr(3));
  }
  return std::nullopt;
}

bool write_word(int directory, const char* file, std::string_view word) {
  const base::UniqueFd fd(::openat(directory, file, O_WRONLY | O_CLOEXEC));
  return fd.valid() && ::write(fd.get(), word.data(), word.size()) == static_cast<ssize_t>(word.size());
}

std::vector<std::string> subgroups(const std::string& path) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(path.c_str()), ::closedir);
  if (!directory) return names;
  while (const dirent* entry = ::readdir(directory.get())) {
    const std::string_view name = entry->d_name;
    if (entry->d_type == DT_DIR && name != "." && name != "..") names.push_back(fmt::format("{}/{}", path, name));
  }
  return names;
}

void collect_pids(const std::string& path, std::vector<pid_t>& pids) {
  const auto content = base::read_file(path + "/cgroup.procs");
  if (content.ok()) {
    for (const std::string_view line : base::split(*content, '\n')) {
      // 0 stands for a process outside of our PID namespace.
      const auto pid = base::parse_decimal(line, 1L << 30);
      if (pid && *pid > 0) pids.push_back(static_cast<pid_t>(*pid));
    }
  }
  for (const std::string& below : subgroups(path)) collect_pids(below, pids);
}

base::Status remove_groups(const std::string& path) {
  for (const std::string& below : subgroups(path)) MUSTER_RETURN_IF_ERROR(remove_groups(below));
  if (::rmdir(path.c_str()) != 0 && errno != ENOENT) return base::errno_error(errno, fmt::format("remove {}", path));
  return base::ok_status();
}

// Returns the mount of cgroup v1's memory controller. nullopt on hosts that have only cgroup v2.
std::optional<Mount> find_memory_mount(const std::string& mountinfo) {
  for (const std::string_view line : base::split(mountinfo, '\n')) {
    const std::size_t dash = line.find(" - ");
    if (dash == std::string_view::npos || !line.substr(dash + 3).starts_with("cgroup ")) continue;
    const auto after = base::split(line.substr(dash + 3), ' ');
    if (after.size() < 3) continue;
    const auto options = base::split(after[2], ',');
    const auto fields = base::split(line.substr(0, dash), ' ');
    const bool is_memory = std::find(options.begin(), options.end(), "memory") != options.end();
    if (is_memory && fields.size() >= 5) return Mount{unescape(fields[3]), unescape(fields[4])};
  }
  return std::nullopt;
}

std::optional<std::string> find_own_memory_path(const std::string& self_cgroup) {
  for (const std::string_view line : base::split(self_cgroup, '\n')) {
    const auto fields = base::split(line, ':');
    if (fields.size() < 3) continue;
    const auto controllers = base::split(fields[1], ',');
    if (std::find(controllers.begin(), controllers.end(), "memory") == controllers.end()) continue;
    return std::string(line.substr(line.find(':', line.find(':') + 1) + 1));
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::uint64_t> keyed_value(const std::string& path, std::string_view key) {
  const auto content = base::read_file(path, kKeyedBytes);
  if (!content.ok()) return std::nullopt;
  for (const std::string_view line : base::split(*content, '\n')) {
    if (!line.starts_with(key) || line.size() <= key.size() || line[key.size()] != ' ') continue;
    const auto value = base::parse_decimal(line.substr(key.size() + 1), std::numeric_limits<long>::max());
    if (value) return static_cast<std::uint64_t>(*value);
  }
  return std::nullopt;
}

std::string find_memory_events(const std::string& mountinfo, const std::string& self_cgroup) {
  const auto mount = find_memory_mount(mountinfo);
  auto own = find_own_memory_path(self_cgroup);
  if (mount && own && own->find("/..") == std::string::npos) {
    if (mount->root != "/" && own->starts_with(mount->root)) own->erase(0, mount->root.size());
    while (own->ends_with('/')) own->pop_back();
    return fmt::format("{}{}/memory.oom_control", mount->point, *own);
  }
  const auto unified = find_own_cgroup(mountinfo, self_cgroup);
  return unified.ok() ? *unified + "/memory.events" : std::string();
}

base::Result<std::string> find_own_cgroup(const std::string& mountinfo, const std::string& self_cgroup) {
  const auto mount = find_cgroup2_mount(mountinfo);
  if (!mount) return base::not_found("no cgroup v2 is mounted");
  const auto own = find_own_path(self_cgroup);
  if (!own) return base::not_found("this process is in no cgroup v2");
  if (own->find("/..") != std::string::npos) {
    return base::not_found("our cgroup lies outside of this container's view");
  }
  std::string_view below = *own;
  if (mount->root != "/") {
    if (!below.starts_with(mount->root)) {
      return base::not_found("our cgroup {} is not under the mounted {}", *own, mount->root);
    }
    below.remove_prefix(mount->root.size());
  }
  while (below.ends_with('/')) below.remove_suffix(1);
  return fmt::format("{}{}", mount->point, below);
}

base::Result<Cgroup> Cgroup::create(const std::string& name) {
  MUSTER_ASSIGN_OR_RETURN(const std::string mountinfo, base::read_file("/proc/self/mountinfo"));
  MUSTER_ASSIGN_OR_RETURN(const std::string self_cgroup, base::read_file("/proc/self/cgroup"));
  MUSTER_ASSIGN_OR_RETURN(const std::string own, find_own_cgroup(mountinfo, self_cgroup));
  const std::string path = fmt::format("{}/{}", own, name);
  if (::mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) {
    return base::errno_error(errno, fmt::format("no cgroup can be made in {}", own));
  }
  auto cgroup = open(path);
  if (!cgroup.ok()) ::rmdir(path.c_str());
  return cgroup;
}

base::Result<Cgroup> Cgroup::open(const std::string& path) {
  base::UniqueFd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.valid()) return base::errno_error(errno, fmt::format("open {}", path));
  base::UniqueFd procs(::openat(directory.get(), "cgroup.procs", O_WRONLY | O_CLOEXEC));
  if (!procs.valid()) return base::errno_error(errno, fmt::format("open {}/cgroup.procs", path));
  return Cgroup(path, std::move(directory), std::move(procs));
}

bool Cgroup::is_populated() const {
  return keyed_value(path_ + "/cgroup.events", "populated").value_or(0) != 0;
}

std::vector<pid_t> Cgroup::pids() const {
  std::vector<pid_t> pids;
  collect_pids(path_, pids);
  return pids;
}

bool Cgroup::kill() const {
  return write_word(directory_.get(), "cgroup.kill", "1");
}

bool Cgroup::freeze(bool on) const {
  return write_word(directory_.get(), "cgroup.freeze", on ? "1" : "0");
}

std::optional<std::uint64_t> Cgroup::oom_kills() const {
  return keyed_value(path_ + "/memory.events", "oom_kill");
}

base::Status Cgroup::remove() const {
  return remove_groups(path_);
}

void Cgroup::remove_blocking() const {
  for (int attempt = 0; attempt < kRemoveTries; ++attempt) {
    if (remove().ok()) return;
    ::poll(nullptr, 0, 1);
  }
}

}  // namespace muster::agent::proc
