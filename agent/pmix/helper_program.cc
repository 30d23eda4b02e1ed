#include "agent/pmix/helper_program.h"

#ifdef MUSTER_PMIX_PROGRAM
__asm__(
    ".section .rodata\n"
    ".balign 16\n"
    "kMusterPmixBegin:\n"
    ".incbin \"" MUSTER_PMIX_PROGRAM
    "\"\n"
    "kMusterPmixEnd:\n"
    ".byte 0\n"
    ".global kMusterPmixBegin, kMusterPmixEnd\n"
    ".previous\n");

extern "C" const char kMusterPmixBegin[];
extern "C" const char kMusterPmixEnd[];
#endif

namespace muster::agent::pmix {

std::string_view helper_program() {
#ifdef MUSTER_PMIX_PROGRAM
  return {kMusterPmixBegin, static_cast<std::size_t>(kMusterPmixEnd - kMusterPmixBegin)};
#else
  return {};
#endif
}

}  // namespace muster::agent::pmix
