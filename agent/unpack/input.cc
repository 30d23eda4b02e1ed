#include "agent/unpack/input.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace muster::agent::inline unpack {
namespace {

constexpr std::size_t kInputPiece = 256 * 1024;

}  // namespace

Input::Input(int fd, std::chrono::milliseconds patience)
    : fd_(fd), patience_ms_(static_cast<int>(patience.count())), buffer_(kInputPiece) {}

Problem Input::fill() {
  while (begin_ == end_) {
    pollfd readable{fd_, POLLIN, 0};
    const int ready = ::poll(&readable, 1, patience_ms_);
    if (ready == 0) return "nothing arrived for " + std::to_string(patience_ms_) + " ms";
    const ssize_t count = ready < 0 ? -1 : ::read(fd_, buffer_.data(), buffer_.size());
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count < 0) return errno_problem(errno, "cannot read");
    if (count == 0) return "the sender has gone";
    begin_ = 0;
    end_ = static_cast<std::size_t>(count);
  }
  return {};
}

Problem Input::read_line(std::string& line, std::size_t limit) {
  line.clear();
  while (true) {
    if (Problem problem = fill(); !problem.empty()) return problem;
    const char* const from = buffer_.data() + begin_;
    const void* const line_end = std::memchr(from, '\n', end_ - begin_);
    const std::size_t size =
        line_end == nullptr ? end_ - begin_ : static_cast<std::size_t>(static_cast<const char*>(line_end) - from);
    if (line.size() + size > limit) return "a line is longer than " + std::to_string(limit) + " bytes";
    line.append(from, size);
    begin_ += size;
    if (line_end != nullptr) {
      ++begin_;
      return {};
    }
  }
}

Problem Input::read_some(std::string_view& bytes, std::uint64_t limit) {
  if (Problem problem = fill(); !problem.empty()) return problem;
  const std::size_t size = static_cast<std::size_t>(std::min<std::uint64_t>(end_ - begin_, limit));
  bytes = {buffer_.data() + begin_, size};
  begin_ += size;
  return {};
}

}  // namespace muster::agent::unpack
