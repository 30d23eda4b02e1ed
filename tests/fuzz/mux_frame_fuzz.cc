// Frames of the agent channel from anybody: the parser never reads outside of its bytes, and what it accepts encodes to
// the same bytes.
#include <cstdint>
#include <cstdlib>

#include "proto/channel_mux.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster::proto;
  constexpr std::size_t kStreams = 3;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  for (;;) {
    const auto parse = parse_mux_frame(rest, kStreams);
    if (!parse.ok()) return 0;
    if (!parse->is_complete) {
      if (parse->size <= rest.size() || parse->size > kMuxHeaderSize + kMaxMuxPayload) std::abort();
      return 0;
    }
    if (parse->size > rest.size() || parse->frame.stream >= kStreams) std::abort();
    std::string again;
    append_mux_frame(parse->frame, &again);
    if (again != rest.substr(0, parse->size)) std::abort();
    rest.remove_prefix(parse->size);
  }
}
