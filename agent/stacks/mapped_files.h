// Files that a process has mapped, as far as one may hold a Python interpreter.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace muster::agent::inline stacks {

inline constexpr std::size_t kMaxMappedFiles = 16;

struct MappedFile {
  std::uint64_t start = 0;  // where its first byte is
  std::string path;         // as the process sees it

  bool operator==(const MappedFile&) const = default;
};

// Parses /proc/PID/maps. Returns the libraries libpython*, then the program itself. A file can be mapped
// several times, and only one mapping is the loaded program. Returns at most kMaxMappedFiles.
std::vector<MappedFile> python_candidates(std::string_view maps, std::string_view program);

// Returns the path of the program that the process runs, as in maps. Empty if we may not read it.
std::string program_of(pid_t pid);

}  // namespace muster::agent::stacks
