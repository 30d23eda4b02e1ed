// Frames of a control channel from any peer: the parser never reads outside of its bytes, and what it accepts encodes
// to the same bytes.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "proto/control_frame.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster::proto;
  constexpr std::size_t kLimit = 1000;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  for (;;) {
    const auto parse = parse_control_frame(rest, kLimit);
    if (!parse.ok()) return 0;
    if (!parse->is_complete) {
      if (parse->size <= rest.size() || parse->size > kControlHeaderSize + std::max(kLimit, kMaxEndReason))
        std::abort();
      return 0;
    }
    if (parse->size > rest.size()) std::abort();
    std::string again;
    append_control_header(parse->frame.kind, parse->frame.payload.size(), again);
    again += parse->frame.payload;
    if (again != rest.substr(0, parse->size)) std::abort();
    rest.remove_prefix(parse->size);
  }
}
