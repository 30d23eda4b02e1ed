#include "launcherd/output/activity_sink.h"

namespace muster::launcherd::inline output {

bool shows_activity(proto::OutputStream stream, std::string_view bytes) {
  constexpr std::string_view kOwn = "muster: ";
  if (stream != proto::OutputStream::kStderr || !bytes.starts_with(kOwn)) return true;
  while (!bytes.empty()) {
    if (!bytes.starts_with(kOwn)) return true;
    const std::size_t end = bytes.find('\n');
    bytes.remove_prefix(end == std::string_view::npos ? bytes.size() : end + 1);
  }
  return false;
}

base::Status ActivitySink::write(int rank, proto::OutputStream stream, std::string_view bytes, std::uint8_t flags) {
  // One thread writes, so no other one can change the number in between.
  if (shows_activity(stream, bytes))
    writes_.store(writes_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  return ForwardingSink::write(rank, stream, bytes, flags);
}

}  // namespace muster::launcherd::output
