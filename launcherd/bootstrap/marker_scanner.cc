#include "launcherd/bootstrap/marker_scanner.h"

#include <algorithm>

#include "launcherd/bootstrap/bootstrap.h"

namespace muster::launcherd::inline bootstrap {
namespace {

bool is_id_byte(char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') || byte == '.' ||
         byte == '_' || byte == '-';
}

}  // namespace

void MarkerScanner::add_noise(std::string_view bytes) {
  noise_size_ += bytes.size();
  if (noise_.size() < kKeptNoise) noise_.append(bytes.substr(0, kKeptNoise - noise_.size()));
  if (noise_size_ > kMaxNoise) state_ = State::kTooMuchNoise;
}

// `held_` is no marker, so it becomes noise, and `byte` may begin the next marker. Search the build id in `held_`
// again, because it may contain the beginning of a marker ("…AMUSTER-AGENT 1 "). The fixed part cannot contain one,
// because its first letter appears in it only once ("MUSTER-AGENT" has one M).
void MarkerScanner::restart_with(char byte) {
  std::string again;
  again.swap(held_);
  const std::size_t next = again.find(kAgentMarker.front(), 1);
  add_noise(std::string_view(again).substr(0, std::min(next, again.size())));
  if (next != std::string::npos) {
    for (const char c : std::string_view(again).substr(next)) on_byte(c);
  }
  on_byte(byte);
}

void MarkerScanner::on_byte(char byte) {
  if (state_ != State::kSearching) return;
  if (held_.size() < kAgentMarker.size()) {
    if (byte == kAgentMarker[held_.size()]) {
      held_ += byte;
    } else if (held_.empty()) {
      add_noise(std::string_view(&byte, 1));
    } else {
      restart_with(byte);
    }
    return;
  }
  if (is_id_byte(byte) && held_.size() < kAgentMarker.size() + kMaxIdSize) {
    held_ += byte;
    return;
  }
  const std::string_view id = std::string_view(held_).substr(kAgentMarker.size());
  if (byte != '\n' || id.empty()) return restart_with(byte);
  if (id == agent_id_) {
    state_ = State::kFound;
  } else {
    other_id_ = id;
    state_ = State::kOtherBuild;
  }
  held_.clear();
}

std::size_t MarkerScanner::feed(std::string_view bytes) {
  std::size_t consumed = 0;
  while (consumed < bytes.size() && state_ == State::kSearching) on_byte(bytes[consumed++]);
  return consumed;
}

}  // namespace muster::launcherd::bootstrap
