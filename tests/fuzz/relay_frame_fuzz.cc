// Frames of a relay's connection from any peer: the parser never reads outside of its bytes, and what it accepts
// encodes to the same bytes.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "proto/relay_frame.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster::proto;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  if (const auto service = parse_via_hello(rest); service && via_hello(*service) != rest) std::abort();
  for (;;) {
    const auto parse = parse_relay_frame(rest);
    if (!parse.ok()) return 0;
    if (!parse->is_complete) {
      if (parse->size <= rest.size() || parse->size > kRelayHeaderSize + kMaxRelayPayload) std::abort();
      return 0;
    }
    if (parse->size > rest.size()) std::abort();
    std::string again;
    append_relay_frame(parse->frame, again);
    if (again != rest.substr(0, parse->size)) std::abort();
    rest.remove_prefix(parse->size);
  }
}
