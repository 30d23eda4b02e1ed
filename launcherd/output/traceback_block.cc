#include "launcherd/output/traceback_block.h"

namespace muster::launcherd::inline output {
namespace {

constexpr std::string_view kTracebackHeader = "Traceback (most recent call last):";
constexpr std::string_view kGroupTracebackHeader = "  + Exception Group Traceback (most recent call last):";
constexpr std::string_view kContext = "During handling of the above exception, another exception occurred:";
constexpr std::string_view kCause = "The above exception was the direct cause of the following exception:";

bool is_indented(std::string_view line) {
  return line.starts_with(' ') || line.starts_with('\t');
}

}  // namespace

// Returns kOutside if the line is no part of the block.
TracebackBlock::State TracebackBlock::next_state(std::string_view line) const {
  switch (state_) {
    case State::kOutside:
      if (line == kGroupTracebackHeader) return State::kGroup;
      return line == kTracebackHeader ? State::kFrames : State::kOutside;
    case State::kFrames:
      if (is_indented(line)) return State::kFrames;
      return line.empty() || line == kTracebackHeader ? State::kOutside : State::kNamed;
    case State::kGroup:
      return is_indented(line) && line != kGroupTracebackHeader ? State::kGroup : State::kOutside;
    case State::kNamed:
      return line.empty() ? State::kBlankAfter : State::kOutside;
    case State::kBlankAfter:
      return line == kContext || line == kCause ? State::kChained : State::kOutside;
    case State::kChained:
      return line.empty() ? State::kBlankBefore : State::kOutside;
    case State::kBlankBefore:
      return line == kTracebackHeader ? State::kFrames : State::kOutside;
  }
  return State::kOutside;
}

bool TracebackBlock::take(std::string_view line) {
  std::string_view text = line;
  if (text.ends_with('\n')) text.remove_suffix(1);
  if (text.ends_with('\r')) text.remove_suffix(1);
  const State next = text_.size() + line.size() > kMaxSize ? State::kOutside : next_state(text);
  if (next == State::kOutside) return false;
  state_ = next;
  text_ += line;
  if (next == State::kNamed) named_size_ = text_.size();
  return true;
}

void TracebackBlock::clear() {
  state_ = State::kOutside;
  text_.clear();
  named_size_ = 0;
}

}  // namespace muster::launcherd::output
