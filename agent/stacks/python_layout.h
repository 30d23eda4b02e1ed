// The offsets, in bytes, of what is read of CPython's threads, frames and code objects, for each version.
//
// CPython 3.13 and later describe themselves (_Py_DebugOffsets at the start of _PyRuntime). Older versions have a table
// here. Each layout holds on 64-bit Linux for a whole minor version, from its first release candidate on.
// Tested against real interpreters: 3.8, 3.9, 3.10, 3.11, 3.12, 3.13 on x86-64.
// Not tested, because no such interpreter was at hand: 3.14, free-threaded builds, debug builds, aarch64.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "agent/stacks/loaded_elf.h"
#include "base/status.h"

namespace muster::agent::inline stacks {

// The tables that lead from an instruction to its line.
enum class LineTable {
  kDeltas,     // until 3.9: co_lnotab
  kRanges,     // 3.10: PEP 626
  kLocations,  // since 3.11: PEP 657
};

struct PythonLayout {
  static constexpr std::uint32_t kNone = UINT32_MAX;

  struct {
    std::uint32_t interpreters = 0;
  } runtime;
  struct {
    std::uint32_t next = 0;
    std::uint32_t threads = 0;
  } interpreter;
  struct {
    std::uint32_t next = 0;
    std::uint32_t interpreter = 0;
    std::uint32_t pthread = 0;
    std::uint32_t native_id = kNone;  // kNone: only the pthread is known
    std::uint32_t frame = 0;
    std::uint32_t in_cframe = kNone;  // otherwise `frame` leads to a CFrame, with the frame at this offset
  } thread;
  struct {
    std::uint32_t previous = 0;
    std::uint32_t code = 0;
    std::uint32_t instruction = 0;  // an address since 3.11; before that an index
    std::uint32_t owner = kNone;
    std::uint32_t bytecode_index = kNone;  // free-threaded builds since 3.14
  } frame;
  struct {
    std::uint32_t file = 0;
    std::uint32_t name = 0;
    std::uint32_t qualified_name = kNone;
    std::uint32_t lines = 0;
    std::uint32_t first_line = 0;
    std::uint32_t bytecode = kNone;
    std::uint32_t bytecode_copies = kNone;  // free-threaded builds since 3.14
  } code;
  struct {
    std::uint32_t type = 8;
    std::uint32_t size = 16;  // of the header without ob_size, which follows it
    std::uint32_t bytes_data = 32;
    std::uint32_t text_length = 16;
    std::uint32_t text_state = 32;
    std::uint32_t ascii_data = 48;
    std::uint32_t other_header = 16;  // before the data of other texts, after ascii_data: their UTF-8 form
    std::uint32_t kind_bit = 2;       // in the state of a text
  } object;
  LineTable line_table = LineTable::kLocations;
  std::uint32_t instruction_scale = 1;  // bytes for each step of an index
};

// An interpreter that a process has loaded.
struct PythonInterpreter {
  std::string version;  // as 3.11.2; only 3.10 where the interpreter does not export more
  PythonLayout layout;
  std::uint64_t runtime = 0;
  // Addresses of the types, by which objects are recognised.
  std::uint64_t code_type = 0;
  std::uint64_t text_type = 0;
  std::uint64_t bytes_type = 0;
};

// NOT_FOUND: `elf` holds no CPython. UNIMPLEMENTED: its version is not known; the message names it.
base::Result<PythonInterpreter> find_python(PageCache& memory, const LoadedElf& elf);

}  // namespace muster::agent::stacks
