#include "agent/io/frame_ring.h"

namespace muster::agent {

using proto::kOutputHeaderSize;

FrameRing::FrameRing(std::size_t capacity) : capacity_(capacity), bytes_(new char[capacity]) {}

char* FrameRing::reserve(std::size_t payload) {
  const std::size_t size = kOutputHeaderSize + payload;
  const std::size_t head = frames_.empty() ? 0 : frames_.front().offset;
  if (is_wrapped_) {
    reserved_ = tail_;
    return head - tail_ >= size ? bytes_.get() + tail_ + kOutputHeaderSize : nullptr;
  }
  if (capacity_ - tail_ >= size) {
    reserved_ = tail_;
  } else if (head >= size) {
    reserved_ = 0;
  } else {
    return nullptr;
  }
  return bytes_.get() + reserved_ + kOutputHeaderSize;
}

void FrameRing::commit(proto::OutputHeader header) {
  if (reserved_ != tail_) {
    wrap_ = tail_;
    is_wrapped_ = true;
  }
  header.sequence = acknowledged_ + frames_.size() + 1;
  proto::encode_output_header(header, bytes_.get() + reserved_);
  frames_.push_back({reserved_, kOutputHeaderSize + header.length});
  tail_ = reserved_ + frames_.back().size;
  committed_ += frames_.back().size;
}

std::string_view FrameRing::unsent() const {
  if (is_wrapped_ && !is_sent_wrapped_) {
    if (sent_ < wrap_) return {bytes_.get() + sent_, wrap_ - sent_};
    return {bytes_.get(), tail_};
  }
  return {bytes_.get() + sent_, tail_ - sent_};
}

void FrameRing::mark_sent(std::size_t bytes) {
  if (is_wrapped_ && !is_sent_wrapped_ && sent_ == wrap_) {
    is_sent_wrapped_ = true;
    sent_ = 0;
  }
  sent_ += bytes;
}

// In ring order the bytes before the jump come first, so "written" is a matter of the segment and of sent_.
bool FrameRing::is_written(const Frame& frame) const {
  const bool is_behind_jump = is_wrapped_ && frame.offset < frames_.front().offset;
  const bool is_before = frame.offset + frame.size <= sent_;
  return is_behind_jump ? is_sent_wrapped_ && is_before : is_sent_wrapped_ || is_before;
}

base::Status FrameRing::acknowledge(std::uint64_t sequence) {
  const std::uint64_t count = sequence - acknowledged_;  // huge when it goes back
  if (count > frames_.size() || (count > 0 && !is_written(frames_[count - 1]))) {
    return base::error(base::Code::kInvalidArgument,
                       "output: the launcher acknowledged frame {} after {}, with {} frames under way", sequence,
                       acknowledged_, frames_.size());
  }
  drop(count);
  return base::ok_status();
}

base::Status FrameRing::resume_after(std::uint64_t sequence) {
  const std::uint64_t count = sequence - acknowledged_;
  if (count > frames_.size()) {
    return base::error(base::Code::kInvalidArgument,
                       "output: the launcher resumes after frame {}, outside of {} and {} more", sequence,
                       acknowledged_, frames_.size());
  }
  drop(count);
  is_sent_wrapped_ = false;
  sent_ = frames_.empty() ? 0 : frames_.front().offset;
  return base::ok_status();
}

void FrameRing::drop(std::uint64_t count) {
  acknowledged_ += count;
  for (; count > 0; --count) {
    const std::size_t offset = frames_.front().offset;
    frames_.pop_front();
    if (frames_.empty() || frames_.front().offset >= offset) continue;
    if (!is_sent_wrapped_) sent_ = 0;  // it stood at wrap_: everything before the jump was written
    is_wrapped_ = is_sent_wrapped_ = false;
  }
  if (frames_.empty()) {  // start over where the cache is warm
    tail_ = sent_ = 0;
    is_wrapped_ = is_sent_wrapped_ = false;
  }
}

}  // namespace muster::agent
