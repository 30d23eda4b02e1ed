// The whole of FrameRing. Read find_room(), reserve() and commit() first, which add frames, then unsent().
// Then read acknowledge() and drop(), which remove frames, then resume_after() and report_gap().

#include "agent/io/frame_ring.h"

#include <algorithm>

#include "base/little_endian.h"

namespace muster::agent::inline io {

using proto::kOutputHeaderSize;

namespace {

constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);

}  // namespace

// Returns the room from `place` to the next run or to the end of the memory.
std::size_t FrameRing::room_behind(std::size_t place) const {
  std::size_t end = memory_->size();
  for (const Run& run : runs_) {
    if (run.begin >= place) end = std::min(end, run.begin);
  }
  return end - place;
}

std::size_t FrameRing::find_room(std::size_t size) {
  if (runs_.empty()) return memory_->grow(size) ? 0 : kNowhere;  // start at 0 again, where the cache is warm
  if (room_behind(runs_.back().end) >= size) return runs_.back().end;
  if (room_behind(0) >= size) return 0;
  std::size_t last = 0;
  for (const Run& run : runs_) {
    if (room_behind(run.end) >= size) return run.end;
    last = std::max(last, run.end);
  }
  return memory_->grow(last + size) ? last : kNowhere;
}

char* FrameRing::reserve(std::size_t payload) {
  const std::size_t place = find_room(kOutputHeaderSize + payload);
  if (place == kNowhere) return nullptr;
  reserved_ = place;
  return memory_->data() + place + kOutputHeaderSize;
}

void FrameRing::commit(proto::OutputHeader header) {
  const std::size_t size = kOutputHeaderSize + header.length;
  if (runs_.empty() || runs_.back().end != reserved_) runs_.push_back({reserved_, reserved_});
  header.sequence = acknowledged_ + frames_ + 1;
  proto::encode_output_header(header, memory_->data() + reserved_);
  runs_.back().end += size;
  ++frames_;
  committed_ += size;
}

std::string_view FrameRing::unsent() const {
  if (ahead_sent_ < ahead_.size()) return std::string_view(ahead_).substr(ahead_sent_);
  std::size_t skipped = sent_;
  for (const Run& run : runs_) {
    const std::size_t size = run.end - run.begin;
    if (skipped < size) return {memory_->data() + run.begin + skipped, size - skipped};
    skipped -= size;
  }
  return {};
}

void FrameRing::mark_sent(std::size_t bytes) {
  (ahead_sent_ < ahead_.size() ? ahead_sent_ : sent_) += bytes;
}

std::size_t FrameRing::frame_size(std::size_t offset) const {
  return kOutputHeaderSize + base::get_little_endian<std::uint32_t>(memory_->data() + offset);
}

std::size_t FrameRing::size_of_first(std::uint64_t count) const {
  std::size_t size = 0;
  auto run = runs_.begin();
  for (std::size_t at = count > 0 ? run->begin : 0; count > 0; --count) {
    const std::size_t frame = frame_size(at);
    size += frame;
    at += frame;
    if (at == run->end && count > 1) at = (++run)->begin;
  }
  return size;
}

base::Status FrameRing::acknowledge(std::uint64_t sequence) {
  if (sequence >= received_ && sequence < acknowledged_) {  // the launcher acknowledges a frame of ahead_
    received_ = sequence;
    return base::ok_status();
  }
  const std::uint64_t count = sequence - acknowledged_;  // a huge number if `sequence` goes back
  if (count > frames_ || size_of_first(count) > sent_) {
    return base::invalid_argument("output: the launcher acknowledged frame {} after {}, with {} frames under way",
                                  sequence, acknowledged_, frames_);
  }
  const std::size_t sent = sent_ - size_of_first(count);
  drop(count);
  sent_ = sent;
  received_ = sequence;
  return base::ok_status();
}

base::Status FrameRing::resume_after(std::uint64_t sequence) {
  ahead_.clear();
  ahead_sent_ = 0;
  sent_ = 0;
  if (sequence < acknowledged_) {
    received_ = sequence;
    report_gap();
    return base::ok_status();
  }
  const std::uint64_t count = sequence - acknowledged_;
  if (count > frames_) {
    return base::invalid_argument("output: the launcher resumes after frame {}, outside of {} and {} more", sequence,
                                  acknowledged_, frames_);
  }
  drop(count);
  received_ = sequence;
  return base::ok_status();
}

// Makes the Gap frame for lost frames. If Finish was dropped, makes it again: it has no content, and no frame comes
// after it.
void FrameRing::report_gap() {
  const std::uint64_t gone = acknowledged_ - (has_dropped_finish_ ? 1 : 0);
  if (received_ < gone) {
    const auto bytes = proto::encode_gap_bytes(dropped_data_);
    ahead_ = proto::encode_output_frame({.kind = proto::OutputKind::kGap, .sequence = gone},
                                        std::string_view(bytes.data(), bytes.size()));
  }
  if (has_dropped_finish_) {
    ahead_ += proto::encode_output_frame({.kind = proto::OutputKind::kFinish, .sequence = acknowledged_}, {});
  }
}

void FrameRing::drop(std::uint64_t count) {
  acknowledged_ += count;
  frames_ -= count;
  for (; count > 0; --count) {
    Run& run = runs_.front();
    const std::size_t size = frame_size(run.begin);
    const auto kind = static_cast<proto::OutputKind>(memory_->data()[run.begin + proto::kOutputKindAt]);
    if (kind == proto::OutputKind::kData) dropped_data_ += size - kOutputHeaderSize;
    has_dropped_finish_ = kind == proto::OutputKind::kFinish;
    run.begin += size;
    if (run.begin == run.end) runs_.pop_front();
  }
  if (runs_.empty()) memory_->shrink();
}

}  // namespace muster::agent::io
