#include "launcherd/output/activity_sink.h"

namespace muster::launcherd::inline output {
namespace {

// Returns true for "3: [grad/17, grad/18]", the tensors that rank 3 has not submitted.
bool lists_tensors(std::string_view line) {
  const std::size_t digits = line.find_first_not_of("0123456789");
  return digits != 0 && digits != std::string_view::npos && line.substr(digits).starts_with(": [");
}

// Recognizes warnings about late ranks. Horovod's have several lines, which come in one write.
class LateRankWarnings {
 public:
  bool includes(std::string_view line) {
    if (line.find("horovod/common/stall_inspector.cc") != std::string_view::npos) return is_horovods_ = true;
    if (is_horovods_ && (line.starts_with("Missing ranks:") || lists_tensors(line))) return true;
    is_horovods_ = false;
    return line.starts_with("muster: ");
  }

 private:
  bool is_horovods_ = false;
};

}  // namespace

bool shows_activity(proto::OutputStream stream, std::string_view bytes) {
  if (stream != proto::OutputStream::kStderr) return true;
  LateRankWarnings warnings;
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    if (!warnings.includes(bytes.substr(0, end))) return true;
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
