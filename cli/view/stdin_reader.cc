#include "cli/view/stdin_reader.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <utility>

#include "proto/input_window.h"

namespace muster::cli::inline view {
namespace {

// Poll at this interval, because a terminal sends no event when its foreground group changes.
constexpr std::chrono::milliseconds kForegroundCheck{500};

bool is_live(int fd) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return false;
  if (::isatty(fd) == 1) return is_foreground(fd);
  return S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode);
}

}  // namespace

model::JobInput settle_input(model::JobInput wanted, int fd) {
  if (wanted.to != model::InputTo::kAuto) return wanted;
  wanted.to = is_live(fd) ? model::InputTo::kRank : model::InputTo::kNone;
  wanted.rank = 0;
  return wanted;
}

StdinReader::StdinReader(base::Loop& loop, int fd, StdinReaderOptions options)
    : loop_(loop), fd_(fd), options_(std::move(options)), is_terminal_(::isatty(fd) == 1), raw_(fd) {
  struct stat info {};
  if (!options_.reads || ::fstat(fd_, &info) != 0) return;
  is_socket_ = S_ISSOCK(info.st_mode);
  is_file_ = !is_terminal_ && !is_socket_ && !S_ISFIFO(info.st_mode);
  if (is_terminal_ || S_ISFIFO(info.st_mode)) {
    own_fd_.reset(::open(fmt::format("/proc/self/fd/{}", fd_).c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  }
}

// Enter raw mode before the ranks start, so that a key typed at a rank's first prompt arrives as a byte.
void StdinReader::prepare() {
  if (options_.reads && !is_over_ && !is_paused_) enter_raw();
}

void StdinReader::start(launcherd::InputFeed& feed) {
  feed_ = &feed;
  if (!options_.reads || is_over_) {
    feed.end();
  } else {
    wait();
  }
}

void StdinReader::stop() {
  feed_ = nullptr;
  watch_.cancel();
  again_.cancel();
  leave_raw();
}

void StdinReader::pause() {
  is_paused_ = true;
  watch_.cancel();
  again_.cancel();
  leave_raw();
}

void StdinReader::resume() {
  is_paused_ = false;
  // Leave raw mode, so that wait() enters it anew: another process may have changed the mode during the stop.
  leave_raw();
  wait();
}

void StdinReader::enter_raw() {
  if (!options_.wants_raw || !is_terminal_ || is_raw_ || !raw_.enter()) return;
  is_raw_ = true;
  if (options_.on_raw) options_.on_raw(true);
}

void StdinReader::leave_raw() {
  raw_.leave();
  if (std::exchange(is_raw_, false) && options_.on_raw) options_.on_raw(false);
}

// Waits for the next byte, if a rank takes it and this process may read it.
void StdinReader::wait() {
  again_.cancel();
  if (feed_ == nullptr || !options_.reads || is_over_ || is_paused_) return;
  if (is_terminal_ && !is_foreground(fd_)) {
    watch_.cancel();
    again_ = loop_.after(kForegroundCheck, [this] { wait(); });
    return;
  }
  enter_raw();
  if (feed_->room() == 0) {
    watch_.cancel();
  } else if (is_file_) {
    again_ = loop_.after(base::Duration(0), [this] { read_some(); });
  } else if (!watch_.armed()) {
    watch_ = loop_.on_readable(own_fd_.valid() ? own_fd_.get() : fd_, [this] { read_some(); });
  }
}

void StdinReader::read_some() {
  if (feed_ == nullptr || is_over_) return;
  if (is_terminal_ && !is_foreground(fd_)) return wait();
  std::array<char, proto::kInputPiece> buffer;
  const std::size_t size = std::min(buffer.size(), feed_->room());
  if (size == 0) return wait();
  // Another process may have read the input first. Then reading fd_ may block, so poll it. own_fd_ never blocks.
  pollfd ready{fd_, POLLIN, 0};
  if (!own_fd_.valid() && !is_file_ && ::poll(&ready, 1, 0) == 0) return wait();
  ssize_t n = 0;
  if (is_socket_) {
    n = ::recv(fd_, buffer.data(), size, MSG_DONTWAIT);
  } else {
    n = read_quietly(own_fd_.valid() ? own_fd_.get() : fd_, buffer.data(), size);
  }
  const bool is_for_later = n < 0 && (errno == EAGAIN || errno == EINTR);
  const bool is_taken_away = n < 0 && errno == EIO && is_terminal_ && !is_foreground(fd_);
  if (is_for_later || is_taken_away) return wait();
  if (n > 0) {
    feed_->give({buffer.data(), static_cast<std::size_t>(n)});
    return wait();
  }
  // The input has ended. A stdin that cannot be read counts as ended (`nohup` opens /dev/null for writing only).
  is_over_ = true;
  watch_.cancel();
  feed_->end();
}

}  // namespace muster::cli::view
