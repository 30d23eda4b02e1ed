// Finds the line of an instruction in the line table of a Python code object.
// Thread: any; pure. The tables come from another process. Any bytes are allowed, and give some line or 0.
#pragma once

#include <cstdint>
#include <span>

#include "agent/stacks/python_layout.h"

namespace muster::agent::inline stacks {

// `offset` is that of the instruction, in bytes. It is negative before the first instruction.
// Returns 0 if the instruction belongs to no line.
int line_of(LineTable kind, std::span<const std::byte> table, int first_line, std::int64_t offset);

}  // namespace muster::agent::stacks
