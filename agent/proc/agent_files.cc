#include "agent/proc/agent_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <memory>
#include <optional>
#include <set>
#include <string_view>

#include "agent/proc/proc_table.h"
#include "base/file.h"
#include "base/unique_fd.h"

namespace muster::agent::inline proc {
namespace {

// The kernel keeps this much of a program's name.
constexpr std::size_t kLongestCommand = 15;

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

std::string own_program() {
  char path[PATH_MAX];
  const ssize_t length = ::readlink("/proc/self/exe", path, sizeof path);
  return length <= 0 || length == sizeof path ? "" : std::string(path, static_cast<std::size_t>(length));
}

std::string_view file_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

// Returns the build in "agent-<build>-<machine>", or in ".agent-<build>-<machine>.<random>" of an agent that is being
// sent. Empty for all other names, as the folder may hold other files of the user.
std::string_view build_of(std::string_view name) {
  constexpr std::size_t kBuildLength = 16;
  constexpr std::string_view kHex = "0123456789abcdef";
  constexpr std::string_view kWord = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
  const bool is_part = name.starts_with('.');
  if (is_part) name.remove_prefix(1);
  constexpr std::string_view kAgent = "agent-";
  if (!name.starts_with(kAgent)) return {};
  name.remove_prefix(kAgent.size());
  const std::string_view build = name.substr(0, kBuildLength);
  if (build.size() != kBuildLength || build.find_first_not_of(kHex) != std::string_view::npos) return {};
  name.remove_prefix(kBuildLength);
  if (!name.starts_with('-')) return {};
  name.remove_prefix(1);
  const std::size_t dot = name.find('.');
  const std::string_view machine = name.substr(0, dot);
  if (is_part != (dot != std::string_view::npos) || machine.empty()) return {};
  const std::string_view random = is_part ? name.substr(dot + 1) : "x";
  const bool is_named = machine.find_first_not_of(kWord) == std::string_view::npos && !random.empty() &&
                        random.find_first_not_of(kWord) == std::string_view::npos;
  return is_named ? build : std::string_view();
}

bool is_agent_name(std::string_view name) {
  return !build_of(name).empty();
}

// True for an empty file, too: the beginning of an agent that is being sent.
bool is_program(const std::string& path) {
  const base::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  char magic[4];
  const ssize_t n = fd.valid() ? ::read(fd.get(), magic, sizeof magic) : -1;
  return n == 0 || (n == sizeof magic && std::string_view(magic, sizeof magic) ==
                                             "\x7f"
                                             "ELF");
}

// Agents cannot be found by /proc/<pid>/exe, because they hide it. Their names are the first letters of the file's
// name.
std::set<std::string> commands_here() {
  std::set<std::string> commands;
  for (const ProcessInfo& process : read_all_processes()) commands.insert(process.command);
  return commands;
}

std::optional<AgentFile> look_at_file(const std::string& path, base::WallTime now) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != ::geteuid()) return std::nullopt;
  if (!is_program(path)) return std::nullopt;
  const auto changed = std::chrono::system_clock::from_time_t(info.st_mtim.tv_sec);
  const auto idle = std::max(std::chrono::seconds(0), std::chrono::duration_cast<std::chrono::seconds>(now - changed));
  return AgentFile{.path = path, .size = info.st_size, .idle = idle, .is_used = idle < 2 * kAgentFileMarkPeriod};
}

}  // namespace

void mark_agent_file_used() {
  const std::string path = own_program();
  if (is_agent_name(file_name(path))) (void)::utimensat(AT_FDCWD, path.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
}

std::string agent_folder() {
  const std::string path = own_program();
  if (is_agent_name(file_name(path))) return path.substr(0, path.rfind('/'));
  const auto home = base::home_directory();
  return home.ok() ? *home + "/.cache/muster" : "";
}

base::Result<std::vector<AgentFile>> find_agent_files(const std::string& folder, std::string_view own_build,
                                                      base::WallTime now) {
  const std::unique_ptr<DIR, CloseFolder> directory(::opendir(folder.c_str()));
  if (directory == nullptr) return base::errno_error(errno, "read the folder of agents " + folder);
  const std::set<std::string> commands = commands_here();
  const std::string own = own_program();
  std::vector<AgentFile> files;
  while (const dirent* const entry = ::readdir(directory.get())) {
    const std::string name = entry->d_name;
    if (!is_agent_name(name)) continue;
    auto file = look_at_file(folder + '/' + name, now);
    if (!file) continue;
    file->is_used = file->is_used || commands.contains(name.substr(0, kLongestCommand));
    file->is_own = file->path == own || build_of(name) == own_build;
    files.push_back(std::move(*file));
  }
  std::ranges::sort(files, std::greater<>(), &AgentFile::idle);
  return files;
}

base::Status remove_agent_file(const AgentFile& file, base::WallTime now) {
  const auto current = look_at_file(file.path, now);
  if (!current || current->idle < file.idle || current->size != file.size) {
    return base::failed_precondition("{} has changed meanwhile", file.path);
  }
  if (::unlink(file.path.c_str()) != 0) return base::errno_error(errno, "remove " + file.path);
  return base::ok_status();
}

}  // namespace muster::agent::proc
