// Output frames from anybody: the parser never reads outside of its bytes, and what it accepts encodes to the same
// bytes.
#include <cstdint>
#include <cstdlib>

#include "proto/output_frame.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster::proto;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  for (;;) {
    const auto parse = parse_output_frame(rest);
    if (!parse.ok()) return 0;
    if (parse->state == OutputParse::State::kNeedMore) {
      if (parse->size <= rest.size() || parse->size > kOutputHeaderSize + kMaxOutputPayload) std::abort();
      return 0;
    }
    const OutputFrame& frame = parse->frame;
    if (parse->size > rest.size() || frame.payload.size() != frame.header.length) std::abort();
    if (encode_output_frame(frame.header, frame.payload) != rest.substr(0, parse->size)) std::abort();
    if (frame.header.kind == OutputKind::kEnd) (void)decode_end_counts(frame.payload);
    if (frame.header.kind == OutputKind::kGap) (void)decode_gap_bytes(frame.payload);
    rest.remove_prefix(parse->size);
  }
}
