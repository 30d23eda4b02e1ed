// What ranks and their host of keys say, from anybody: the reader never reads outside of its bytes nor keeps more than
// one frame beyond what it was given, what it accepts encodes to the same bytes, and it does not matter in which pieces
// the bytes come.
#include <cstdint>
#include <cstdlib>

#include "rendezvous/session_frame.h"

namespace {

using namespace muster::rendezvous;

// Everything that was accepted, as frames again; whether an error followed.
std::string read_in_pieces(std::string_view bytes, std::size_t piece, bool* failed) {
  SessionReader reader;
  std::string accepted;
  *failed = false;
  while (!bytes.empty()) {
    const std::string_view head = bytes.substr(0, piece);
    bytes.remove_prefix(head.size());
    reader.append(head);
    for (;;) {
      const auto message = reader.next();
      if (!message.ok()) {
        *failed = true;
        return accepted;
      }
      if (!message->has_value()) break;
      accepted += encode_session(**message);
    }
    if (reader.missing() == 0 || reader.missing() > kMaxSessionFrame) std::abort();
  }
  return accepted;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  bool failed = false;
  const std::string whole = read_in_pieces(bytes, size + 1, &failed);
  if (whole != bytes.substr(0, whole.size())) std::abort();
  bool failed_in_pieces = false;
  if (read_in_pieces(bytes, 3, &failed_in_pieces) != whole || failed_in_pieces != failed) std::abort();
  return 0;
}
