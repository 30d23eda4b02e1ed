#include "agent/gpus/helper_program.h"

__asm__(
    ".section .rodata\n"
    ".balign 16\n"
    "kMusterGpusBegin:\n"
    ".incbin \"" MUSTER_GPUS_PROGRAM
    "\"\n"
    "kMusterGpusEnd:\n"
    ".byte 0\n"
    ".global kMusterGpusBegin, kMusterGpusEnd\n"
    ".previous\n");

extern "C" const char kMusterGpusBegin[];
extern "C" const char kMusterGpusEnd[];

namespace muster::agent::inline gpus {

std::string_view helper_program() {
  return {kMusterGpusBegin, static_cast<std::size_t>(kMusterGpusEnd - kMusterGpusBegin)};
}

}  // namespace muster::agent::gpus
