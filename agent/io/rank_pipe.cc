#include "agent/io/rank_pipe.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "agent/io/line_cut.h"

namespace muster::agent::inline io {
namespace {

// An empty carry keeps at most this much memory allocated, for each pipe.
constexpr std::size_t kKeptCapacity = 16 * 1024;
// Bytes of the tail of stdout. It only serves last_line(). A longer tail would cost time at each read.
constexpr std::size_t kStdoutTail = 512;

}  // namespace

RankPipe::RankPipe(int rank, proto::OutputStream stream, base::UniqueFd fd, Cut cut)
    : rank_(rank),
      stream_(stream),
      fd_(std::move(fd)),
      cut_(cut),
      tail_(stream == proto::OutputStream::kStderr ? LineTail::kMaxBytes : kStdoutTail) {}

std::size_t RankPipe::pending() const {
  int bytes = 0;
  if (!fd_.valid() || ioctl(fd_.get(), FIONREAD, &bytes) != 0) return 0;
  return static_cast<std::size_t>(std::max(bytes, 0));
}

void RankPipe::stop_after_pending() {
  if (!left_) left_ = pending();
}

RankPipe::Step RankPipe::close() {
  fd_.reset();
  return Step::kEnded;
}

void RankPipe::note(std::string_view bytes, base::MonotonicTime now) {
  bytes_ += bytes.size();
  last_data_ = now;
  if (left_) *left_ -= std::min(*left_, bytes.size());
  tail_.append(bytes);
}

void RankPipe::keep(std::string_view rest, CarryBudget* budget) {
  carry_.append(rest);
  budget->used += rest.size();
}

void RankPipe::clear_carry(CarryBudget* budget) {
  budget->used -= carry_.size();
  carry_.clear();
  if (carry_.capacity() > kKeptCapacity) carry_.shrink_to_fit();
  has_whole_lines_ = false;
}

RankPipe::Step RankPipe::read_step(FrameRing* ring, CarryBudget* budget, base::MonotonicTime now) {
  if (!fd_.valid()) return Step::kEnded;
  if (has_whole_lines_ && !flush_carry(ring, budget)) return Step::kRingFull;
  if (left_ && *left_ == 0) return close();
  std::size_t want = std::min(kReadSize, kMaxLine - carry_.size());
  if (left_) want = std::min(want, *left_);
  char* const payload = ring->reserve(carry_.size() + want);
  if (payload == nullptr) return Step::kRingFull;
  char* const fresh = payload + carry_.size();
  const ssize_t got = read(fd_.get(), fresh, want);
  if (got < 0 && errno == EINTR) return Step::kMoved;
  if (got < 0 && errno == EAGAIN && !left_) return Step::kEmpty;
  if (got <= 0) return close();
  const std::string_view bytes(fresh, static_cast<std::size_t>(got));
  note(bytes, now);

  proto::OutputHeader header{.kind = proto::OutputKind::kData,
                             .flags = is_in_line_ ? proto::kContinuation : std::uint8_t{0},
                             .stream = stream_,
                             .rank = static_cast<std::uint32_t>(rank_)};
  std::size_t cut = whole_lines(bytes);
  if (cut_ == Cut::kAsTheyCome && cut < bytes.size()) {
    cut = bytes.size();
    header.flags |= proto::kPartial;
  } else if (cut == 0) {
    const std::size_t line = carry_.size() + bytes.size();
    const bool is_over_budget = budget->used + bytes.size() > budget->limit && line > kFairLine;
    if (line < kMaxLine && !is_over_budget) {
      keep(bytes, budget);
      return Step::kMoved;
    }
    cut = bytes.size();
    header.flags |= proto::kPartial;
  }
  std::memcpy(payload, carry_.data(), carry_.size());
  header.length = static_cast<std::uint32_t>(carry_.size() + cut);
  ring->commit(header);
  is_in_line_ = (header.flags & proto::kPartial) != 0;
  clear_carry(budget);
  keep(bytes.substr(cut), budget);
  return Step::kMoved;
}

bool RankPipe::flush_carry(FrameRing* ring, CarryBudget* budget) {
  if (carry_.empty()) return true;
  char* const payload = ring->reserve(carry_.size());
  if (payload == nullptr) return false;
  std::memcpy(payload, carry_.data(), carry_.size());
  const bool is_partial = whole_lines(carry_) != carry_.size();
  ring->commit({.kind = proto::OutputKind::kData,
                .flags = static_cast<std::uint8_t>((is_in_line_ ? proto::kContinuation : 0) |
                                                   (is_partial ? proto::kPartial : 0)),
                .stream = stream_,
                .rank = static_cast<std::uint32_t>(rank_),
                .length = static_cast<std::uint32_t>(carry_.size())});
  is_in_line_ = is_partial;
  clear_carry(budget);
  return true;
}

void RankPipe::read_tail(CarryBudget* budget) {
  std::array<char, 8192> chunk;
  std::size_t taken = 0;
  while (fd_.valid() && taken < kTailRead && carry_.size() + chunk.size() <= kMaxLine) {
    const ssize_t got = read(fd_.get(), chunk.data(), chunk.size());
    if (got <= 0) return;  // empty or EOF; read_step() will see it again
    const std::string_view bytes(chunk.data(), static_cast<std::size_t>(got));
    note(bytes, last_data_);
    keep(bytes, budget);
    has_whole_lines_ = true;
    taken += bytes.size();
  }
}

}  // namespace muster::agent::io
