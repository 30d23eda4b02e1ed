#include "base/thread_room.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <charconv>
#include <limits>
#include <optional>
#include <string_view>

#include "base/file.h"
#include "base/strings.h"

namespace muster::base {
namespace {

constexpr long kNoLimit = std::numeric_limits<long>::max();
constexpr std::size_t kMostBytes = 64u << 10;

std::optional<long> number_of(std::string_view text) {
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  if (text == "max") return kNoLimit;
  long number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<long> number_in(const std::string& path) {
  const auto text = read_file(path, kMostBytes);
  return text.ok() ? number_of(*text) : std::nullopt;
}

// Returns the number of threads on this machine: /proc/loadavg is "0.10 0.20 0.30 2/345 6789".
std::optional<long> threads_of_all(const std::string& root) {
  const auto text = read_file(root + "/proc/loadavg", kMostBytes);
  if (!text.ok()) return std::nullopt;
  const auto words = split(*text, ' ');
  if (words.size() < 4) return std::nullopt;
  const std::size_t slash = words[3].find('/');
  return slash == std::string_view::npos ? std::nullopt : number_of(words[3].substr(slash + 1));
}

bool fits(long limit, long used, long more) {
  return limit == kNoLimit || (limit >= used && limit - used >= more);
}

// All threads of the machine count as the user's, since nothing tells cheaply how many are.
bool machine_leaves_room(long threads, const std::string& root) {
  const auto used = threads_of_all(root);
  const auto most_threads = number_in(root + "/proc/sys/kernel/threads-max");
  const auto most_pids = number_in(root + "/proc/sys/kernel/pid_max");
  rlimit own{};
  if (!used || !most_threads || !most_pids || ::getrlimit(RLIMIT_NPROC, &own) != 0) return false;
  const long most_of_user = own.rlim_cur == RLIM_INFINITY ? kNoLimit : static_cast<long>(own.rlim_cur);
  return fits(*most_threads, *used, threads) && fits(*most_pids, *used, threads) && fits(most_of_user, *used, threads);
}

// A cgroup without pids.max has no limit: it is the first one, or the controller is not used there.
bool cgroup_leaves_room(const std::string& folder, long threads) {
  struct stat found {};
  if (::stat((folder + "/pids.max").c_str(), &found) != 0) return true;
  const auto limit = number_in(folder + "/pids.max");
  if (!limit) return false;
  if (*limit == kNoLimit) return true;
  const auto used = number_in(folder + "/pids.current");
  return used && fits(*limit, *used, threads);
}

// The limits of the cgroup `path` and of those above it.
bool cgroups_leave_room(const std::string& mount, std::string path, long threads) {
  struct stat found {};
  if (path.empty() || path.front() != '/' || ::stat((mount + path).c_str(), &found) != 0) return false;
  while (true) {
    if (!cgroup_leaves_room(mount + path, threads)) return false;
    if (path.empty() || path == "/") return true;
    path.resize(path.rfind('/'));
  }
}

bool has_controller(std::string_view names, std::string_view name) {
  for (const std::string_view each : split(names, ',')) {
    if (each == name) return true;
  }
  return false;
}

// A line of /proc/self/cgroup is "ID:CONTROLLERS:PATH": without controllers for the second version, else with them.
bool all_cgroups_leave_room(long threads, const std::string& root) {
  const auto lines = read_file(root + "/proc/self/cgroup", kMostBytes);
  if (!lines.ok()) return false;
  for (const std::string_view line : split(*lines, '\n')) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string path(line.substr(second + 1));
    if (has_controller(controllers, "pids")) {
      if (!cgroups_leave_room(root + "/sys/fs/cgroup/pids", path, threads)) return false;
    } else if (controllers.empty()) {
      struct stat hybrid {};
      const std::string beside = root + "/sys/fs/cgroup/unified";
      const std::string mount = ::stat(beside.c_str(), &hybrid) == 0 ? beside : root + "/sys/fs/cgroup";
      if (!cgroups_leave_room(mount, path, threads)) return false;
    }
  }
  return true;
}

}  // namespace

bool limits_leave_room(int threads, const std::string& root) {
  return machine_leaves_room(threads, root) && all_cgroups_leave_room(threads, root);
}

}  // namespace muster::base
