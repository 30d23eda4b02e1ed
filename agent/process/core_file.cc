// Finding the core of a crashed rank. Read find_core() first, at the end.
#include "agent/process/core_file.h"

#include <dirent.h>
#include <fnmatch.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <ctime>
#include <memory>
#include <string_view>

#include <fmt/format.h>

#include "base/file.h"
#include "base/strings.h"

namespace muster::agent::inline process {
namespace {

constexpr int kMostEntries = 100'000;    // of a folder; the search must not take long
constexpr std::time_t kOldestCore = 60;  // seconds; an older file is of another crash

struct CloseDir {
  void operator()(DIR* dir) const { ::closedir(dir); }
};

void add_literal(char c, std::string* to) {
  if (std::string_view("*?[]\\").find(c) != std::string_view::npos) *to += '\\';
  *to += c;
}

// Appends what the kernel writes for "%<letter>". core(5) lists the letters.
void add_specifier(char letter, const CoreQuery& query, std::string* to) {
  if (letter == 'p') {
    *to += fmt::format("{}", query.pid_inside);
  } else if (letter == 's') {
    *to += fmt::format("{}", query.signal);
  } else if (letter == '%') {
    *to += letter;
  } else {
    *to += '*';
  }
}

bool has_wildcard(std::string_view pattern) {
  return pattern.find('*') != std::string_view::npos;
}

// Removes the backslashes of a pattern without wildcards.
std::string plain(std::string_view pattern) {
  std::string path;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '\\' && i + 1 < pattern.size()) ++i;
    path += pattern[i];
  }
  return path;
}

// Returns the time of the file's last change. -1 if it is no regular file, or older than the crash.
std::time_t time_of_core(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return -1;
  return info.st_mtime + kOldestCore < std::time(nullptr) ? -1 : info.st_mtime;
}

// Returns the newest core that matches. Empty if there is none.
std::string newest_match(const std::string& pattern) {
  if (!has_wildcard(pattern)) return time_of_core(plain(pattern)) >= 0 ? plain(pattern) : std::string();
  const std::size_t slash = pattern.rfind('/');
  const std::string folder = plain(std::string_view(pattern).substr(0, slash + 1));
  if (has_wildcard(std::string_view(pattern).substr(0, slash))) return "";
  const std::unique_ptr<DIR, CloseDir> dir(::opendir(folder.c_str()));
  if (dir == nullptr) return "";
  std::string best;
  std::time_t best_time = -1;
  for (int i = 0; i < kMostEntries; ++i) {
    const dirent* const entry = ::readdir(dir.get());
    if (entry == nullptr) break;
    if (::fnmatch(pattern.c_str() + slash + 1, entry->d_name, FNM_PERIOD) != 0) continue;
    const std::time_t time = time_of_core(folder + entry->d_name);
    if (time <= best_time) continue;
    best = folder + entry->d_name;
    best_time = time;
  }
  return best;
}

// The pattern begins with "|" or "@": the kernel gives cores to a program.
std::string describe_receiver(const CoreQuery& query, const std::string& pattern) {
  if (pattern.find("systemd") != std::string::npos) {
    return fmt::format("systemd-coredump has its core: coredumpctl info {}", query.pid);
  }
  const std::string_view program = base::trim(std::string_view(pattern).substr(1));
  return fmt::format("the kernel gives cores to {}", program.substr(0, program.find(' ')));
}

std::string explain_missing(const CoreQuery& query, const CoreSettings& settings, const std::string& path) {
  // The limit counts only for cores that the kernel itself writes. It is too small if not even a page fits.
  if (!query.was_dumped && query.limit < 4096) {
    return "no core was written, because the limit of its size is 0: hvdrun --ulimit core=unlimited";
  }
  const std::string folder = path.substr(0, path.rfind('/') + 1);
  if (!query.was_dumped && !has_wildcard(folder) && ::access(plain(folder).c_str(), W_OK) != 0) {
    return fmt::format("no core was written: this user may not write to {}", plain(folder));
  }
  return fmt::format("{} (kernel.core_pattern is {})",
                     query.was_dumped ? "the kernel has written a core, but it was not found" : "no core was written",
                     settings.pattern);
}

}  // namespace

bool may_leave_core(int signal) {
  constexpr std::array kCrashes{SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS, SIGQUIT, SIGXCPU, SIGXFSZ};
  return std::ranges::find(kCrashes, signal) != kCrashes.end();
}

CoreSettings read_core_settings() {
  const auto pattern = base::read_file("/proc/sys/kernel/core_pattern");
  const auto uses_pid = base::read_file("/proc/sys/kernel/core_uses_pid");
  return {.pattern = pattern.ok() ? std::string(base::trim(*pattern)) : std::string(),
          .appends_pid = uses_pid.ok() && base::trim(*uses_pid) == "1"};
}

std::string core_path_pattern(const CoreQuery& query, const CoreSettings& settings) {
  const std::string& from = settings.pattern;
  std::string path;
  if (!from.starts_with('/')) {
    for (const char c : query.workdir) add_literal(c, &path);
    path += '/';
  }
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (from[i] == '%' && i + 1 < from.size()) {
      add_specifier(from[++i], query, &path);
    } else {
      add_literal(from[i], &path);
    }
  }
  const bool has_pid = from.find("%p") != std::string::npos;
  if (settings.appends_pid && !has_pid) path += fmt::format(".{}", query.pid_inside);
  return path;
}

CoreFinding find_core(const CoreQuery& query, const CoreSettings& settings) {
  if (settings.pattern.empty()) return {.file = {}, .note = "no core was written (kernel.core_pattern is empty)"};
  if (settings.pattern.starts_with('|') || settings.pattern.starts_with('@')) {
    return {.file = {}, .note = describe_receiver(query, settings.pattern)};
  }
  const std::string pattern = core_path_pattern(query, settings);
  if (query.was_dumped) {
    if (std::string file = newest_match(pattern); !file.empty()) return {.file = std::move(file), .note = {}};
  }
  return {.file = {}, .note = explain_missing(query, settings, pattern)};
}

}  // namespace muster::agent::process
