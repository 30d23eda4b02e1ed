// Reading and querying /proc. Read parse_stat() first, which all queries use.
// Then read signal_process(), which never hits a reused pid.

#include "agent/proc/proc_table.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <unordered_map>

#include <fmt/format.h>

#include "base/file.h"
#include "base/strings.h"

namespace muster::agent::inline proc {
namespace {

// Reads with one read(2), which is enough for every small file of /proc.
std::string read_small(int directory, const char* path) {
  const base::UniqueFd fd(::openat(directory, path, O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return {};
  char buffer[4096];
  const ssize_t n = ::read(fd.get(), buffer, sizeof buffer);
  return n > 0 ? std::string(buffer, static_cast<std::size_t>(n)) : std::string();
}

template <typename T>
bool parse_number(std::string_view text, T& value) {
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  return code == std::errc() && end == text.data() + text.size();
}

// Positions of fields in /proc/<pid>/stat after the command's closing parenthesis (proc(5), where state is field 3).
constexpr std::size_t kState = 0;
constexpr std::size_t kParent = 1;
constexpr std::size_t kGroup = 2;
constexpr std::size_t kSession = 3;
// The times of the process in user space and in the kernel, then those of its reaped children.
constexpr std::size_t kFirstCpuTime = 11;
constexpr std::size_t kCpuTimes = 4;
constexpr std::size_t kStartTime = 19;

}  // namespace

std::optional<ProcessInfo> parse_stat(std::string_view content) {
  // The command may contain blanks and parentheses, so the last ')' ends it.
  const std::size_t open = content.find(" (");
  const std::size_t close = content.rfind(") ");
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) return std::nullopt;
  ProcessInfo info;
  info.command = content.substr(open + 2, close - open - 2);
  const auto fields = base::split(base::trim(content.substr(close + 2)), ' ');
  if (fields.size() <= kStartTime || fields[kState].size() != 1) return std::nullopt;
  info.state = fields[kState].front();
  if (!parse_number(content.substr(0, open), info.pid) || !parse_number(fields[kParent], info.parent) ||
      !parse_number(fields[kGroup], info.group) || !parse_number(fields[kSession], info.session) ||
      !parse_number(fields[kStartTime], info.start_time)) {
    return std::nullopt;
  }
  for (std::size_t i = kFirstCpuTime; i < kFirstCpuTime + kCpuTimes; ++i) {
    std::int64_t ticks = 0;  // signed, as the kernel prints the last two
    if (!parse_number(fields[i], ticks)) return std::nullopt;
    info.cpu_ticks += static_cast<std::uint64_t>(std::max(ticks, std::int64_t{0}));
  }
  return info;
}

std::optional<ProcessInfo> read_process(pid_t pid) {
  return parse_stat(read_small(AT_FDCWD, fmt::format("/proc/{}/stat", pid).c_str()));
}

std::vector<ProcessInfo> read_all_processes() {
  std::vector<ProcessInfo> table;
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir("/proc"), ::closedir);
  if (!directory) return table;
  while (const dirent* entry = ::readdir(directory.get())) {
    pid_t pid = 0;
    if (!parse_number(std::string_view(entry->d_name), pid)) continue;
    if (auto info = read_process(pid)) table.push_back(std::move(*info));
  }
  std::ranges::sort(table, {}, &ProcessInfo::pid);
  return table;
}

std::vector<ProcessInfo> descendants(const std::vector<ProcessInfo>& table, pid_t root,
                                     const std::vector<pid_t>& spare) {
  std::unordered_multimap<pid_t, const ProcessInfo*> children;
  for (const ProcessInfo& info : table) children.emplace(info.parent, &info);
  std::vector<ProcessInfo> found;
  std::vector<pid_t> open{root};
  while (!open.empty()) {
    const pid_t parent = open.back();
    open.pop_back();
    const auto [first, last] = children.equal_range(parent);
    for (auto child = first; child != last; ++child) {
      const ProcessInfo& info = *child->second;
      if (info.pid == root || std::ranges::find(spare, info.pid) != spare.end()) continue;
      found.push_back(info);
      open.push_back(info.pid);
    }
    // The snapshot is not atomic. A reused pid could make a cycle in it, which this erase ends.
    children.erase(parent);
  }
  return found;
}

std::vector<pid_t> ancestors(pid_t pid) {
  std::vector<pid_t> line;
  while (pid > 0 && std::ranges::find(line, pid) == line.end()) {
    line.push_back(pid);
    const auto info = read_process(pid);
    if (!info) break;
    pid = info->parent;
  }
  return line;
}

bool is_of_user(pid_t pid, uid_t uid) {
  const auto content = base::read_file(fmt::format("/proc/{}/status", pid), 1u << 16);
  return content.ok() && content->find(fmt::format("\nUid:\t{}\t", uid)) != std::string::npos;
}

std::string wait_channel(pid_t pid) {
  std::string text = read_small(AT_FDCWD, fmt::format("/proc/{}/wchan", pid).c_str());
  return text == "0" ? std::string() : text;
}

base::UniqueFd open_pidfd(pid_t pid) {
  return base::UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

bool send_by_pidfd(int pidfd, int signo) {
  return ::syscall(SYS_pidfd_send_signal, pidfd, signo, nullptr, 0) == 0;
}

bool signal_process(const ProcessInfo& info, int signo) {
  const base::UniqueFd pidfd = open_pidfd(info.pid);
  const bool has_pidfd = pidfd.valid() || errno != ENOSYS;
  if (has_pidfd && !pidfd.valid()) return false;
  // Only now is the pid pinned. Check that it still names the process that was seen.
  const auto now = read_process(info.pid);
  if (!now || now->start_time != info.start_time || now->is_dead()) return false;
  return has_pidfd ? send_by_pidfd(pidfd.get(), signo) : ::kill(info.pid, signo) == 0;
}

std::uint64_t ticks_since_boot() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  const auto ticks = static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
  return static_cast<std::uint64_t>(now.tv_sec) * ticks +
         static_cast<std::uint64_t>(now.tv_nsec) * ticks / 1'000'000'000;
}

pid_t pid_of_pidfd(int proc_fd, int pidfd) {
  const std::string content = read_small(proc_fd, fmt::format("self/fdinfo/{}", pidfd).c_str());
  for (const std::string_view line : base::split(content, '\n')) {
    pid_t pid = 0;
    if (line.starts_with("Pid:") && parse_number(base::trim(line.substr(4)), pid)) return pid > 0 ? pid : 0;
  }
  return 0;
}

}  // namespace muster::agent::proc
