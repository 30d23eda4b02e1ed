// Finds exported symbols of a program or library in the memory of the process that has it loaded.
// It needs no file. So it also works in containers, and after the file was replaced.
//
// Everything is read from the process and not trusted: all counts are bounded.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "agent/stacks/target_memory.h"

namespace muster::agent::inline stacks {

class LoadedElf {
 public:
  // `start` is where the file's first byte is mapped. nullopt if there is no 64-bit little-endian ELF file with a table
  // of dynamic symbols.
  static std::optional<LoadedElf> open(PageCache& memory, std::uint64_t start);

  // Returns the address of an exported symbol. nullopt if it is not defined here.
  std::optional<std::uint64_t> find(PageCache& memory, std::string_view symbol) const;

 private:
  std::optional<std::uint64_t> find_by_gnu_hash(PageCache& memory, std::string_view symbol) const;
  std::optional<std::uint64_t> find_by_hash(PageCache& memory, std::string_view symbol) const;
  std::optional<std::uint64_t> value_if_named(PageCache& memory, std::uint64_t index, std::string_view symbol) const;

  std::uint64_t bias_ = 0;
  std::uint64_t symbols_ = 0;
  std::uint64_t strings_ = 0;
  std::uint64_t gnu_hash_ = 0;  // 0 if the file has none
  std::uint64_t hash_ = 0;      // 0 if the file has none
};

}  // namespace muster::agent::stacks
