#include "agent/io/rank_input.h"

#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "proto/input_window.h"

namespace muster::agent::inline io {
namespace {

// The interval at which the terminal's mode is read, because the kernel does not report that it has changed.
constexpr std::chrono::milliseconds kModeCheck{200};

}  // namespace

RankInput::RankInput(base::Loop& loop, base::UniqueFd fd, Kind kind, OnTaken on_taken)
    : loop_(loop), fd_(std::move(fd)), kind_(kind), on_taken_(std::move(on_taken)) {
  // A pipe's write end becomes readable in one case only: the rank has closed the read end (EPOLLERR).
  if (kind_ == Kind::kPipe) reader_watch_ = loop_.on_readable(fd_.get(), [this] { close(0); });
}

void RankInput::push(std::string_view bytes) {
  if (!fd_.valid() || is_ending_ || bytes.empty()) return;
  if (bytes.size() > proto::kInputWindow - owed_) {
    close(0);
    return;
  }
  queue_.append(bytes);
  owed_ += bytes.size();
  last_ = bytes.back();
  write_some();
}

void RankInput::end() {
  if (!fd_.valid() || std::exchange(is_ending_, true)) return;
  if (kind_ == Kind::kTerminal) {
    type_end();
    mode_watch_ = loop_.every(kModeCheck, [this] {
      termios modes{};
      if (::tcgetattr(fd_.get(), &modes) != 0 || ended_lines_ == ((modes.c_lflag & ICANON) != 0)) return;
      type_end();
      write_some();
    });
  }
  write_some();
}

void RankInput::resize(unsigned short rows, unsigned short columns) {
  const winsize size{rows, columns, 0, 0};
  // Ignore errors: only a terminal that is gone refuses this, and its rank is ending.
  if (fd_.valid()) (void)::ioctl(fd_.get(), TIOCSWINSZ, &size);
}

// Types one end-of-file character, or two in the middle of a line, where the first only hands over the typed part.
void RankInput::type_end() {
  termios modes{};
  const bool is_known = ::tcgetattr(fd_.get(), &modes) == 0;
  ended_lines_ = is_known && (modes.c_lflag & ICANON) != 0;
  // If the terminal reads keys and not lines, c_cc[VEOF] has another meaning.
  const char end = ended_lines_ ? static_cast<char>(modes.c_cc[VEOF]) : '\4';
  queue_.append(last_ == '\n' || !ended_lines_ ? 1 : 2, end);
}

void RankInput::write_some() {
  std::size_t written = 0;
  while (written < queue_.size()) {
    const ssize_t n = ::write(fd_.get(), queue_.data() + written, queue_.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n <= 0) {
      close(written);
      return;
    }
    written += static_cast<std::size_t>(n);
  }
  queue_.erase(0, written);
  const std::size_t taken = std::min(written, owed_);
  owed_ -= taken;
  if (!queue_.empty()) {
    if (!room_watch_.armed()) room_watch_ = loop_.on_writable(fd_.get(), [this] { write_some(); });
  } else {
    room_watch_.cancel();
    if (is_ending_ && kind_ == Kind::kPipe) {
      reader_watch_.cancel();
      fd_.reset();
    }
  }
  if (taken > 0) on_taken_(taken, false);
}

void RankInput::close(std::size_t taken) {
  room_watch_.cancel();
  mode_watch_.cancel();
  reader_watch_.cancel();
  fd_.reset();
  queue_.clear();
  taken = std::min(taken, std::exchange(owed_, 0));
  on_taken_(taken, true);
}

}  // namespace muster::agent::io
