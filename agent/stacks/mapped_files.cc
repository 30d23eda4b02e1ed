#include "agent/stacks/mapped_files.h"

#include <unistd.h>

#include <charconv>
#include <climits>
#include <optional>

#include <fmt/format.h>

#include "base/strings.h"

namespace muster::agent::inline stacks {
namespace {

// A line is START-END PERMISSIONS OFFSET DEVICE INODE PATH. nullopt unless the first byte of a file is mapped here.
std::optional<MappedFile> parse_line(std::string_view line) {
  MappedFile file;
  const char* const end = line.data() + line.size();
  const auto [after, error] = std::from_chars(line.data(), end, file.start, 16);
  if (error != std::errc() || after == end || *after != '-') return std::nullopt;
  std::string_view rest = line;
  std::string_view offset;
  for (int field = 0; field < 5; ++field) {
    const auto blank = rest.find(' ');
    if (blank == std::string_view::npos) return std::nullopt;
    if (field == 2) offset = rest.substr(0, blank);
    rest.remove_prefix(blank + 1);
  }
  rest = base::trim(rest);
  if (!rest.starts_with('/') || offset.find_first_not_of('0') != std::string_view::npos) return std::nullopt;
  file.path = rest;
  return file;
}

}  // namespace

std::vector<MappedFile> python_candidates(std::string_view maps, std::string_view program) {
  std::vector<MappedFile> libraries;
  std::vector<MappedFile> programs;
  for (const std::string_view line : base::split(maps, '\n')) {
    const auto file = parse_line(line);
    if (!file) continue;
    const std::string_view path = file->path;
    const bool is_library = path.substr(path.rfind('/') + 1).starts_with("libpython");
    if (!is_library && path != program) continue;
    (is_library ? libraries : programs).push_back(*file);
  }
  // Leave room for the program, which is more often the interpreter than a library that is mapped many times.
  if (libraries.size() > kMaxMappedFiles / 2) libraries.resize(kMaxMappedFiles / 2);
  if (programs.size() > kMaxMappedFiles / 2) programs.resize(kMaxMappedFiles / 2);
  libraries.insert(libraries.end(), programs.begin(), programs.end());
  return libraries;
}

std::string program_of(pid_t pid) {
  char path[PATH_MAX];
  const ssize_t size = ::readlink(fmt::format("/proc/{}/exe", pid).c_str(), path, sizeof path);
  return size <= 0 ? std::string() : std::string(path, static_cast<std::size_t>(size));
}

}  // namespace muster::agent::stacks
