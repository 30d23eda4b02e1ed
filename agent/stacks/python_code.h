// Reads Python code objects and texts from the memory of another process.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/stacks/python_layout.h"

namespace muster::agent::inline stacks {

inline constexpr std::size_t kMaxPythonName = 300;   // characters; a longer name is cut
inline constexpr std::size_t kMaxPythonFile = 1024;  // characters; a longer path is cut

struct PythonCode {
  std::string function;
  std::string file;
  int first_line = 0;
  std::vector<std::byte> lines;
  std::int64_t code_units = 0;  // -1 if not known
};

// nullopt if there is no complete code object at this address. Texts are UTF-8.
std::optional<PythonCode> read_python_code(PageCache& memory, const PythonInterpreter& python, std::uint64_t address);

// Returns at most `limit` characters as UTF-8, and "…" if there are more. nullopt if there is no Python text.
std::optional<std::string> read_python_text(PageCache& memory, const PythonInterpreter& python, std::uint64_t address,
                                            std::size_t limit);

}  // namespace muster::agent::stacks
