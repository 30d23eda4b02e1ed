#include "cli/view/live_screen.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include "base/strings.h"
#include "base/unique_fd.h"
#include "cli/view/top_view.h"

namespace muster::cli::inline view {
namespace {

// Escape sequences of xterm and of compatible terminals: switch to the other screen without a cursor, and back.
constexpr const char* kEnter = "\x1b[?1049h\x1b[?25l";
constexpr const char* kLeave = "\x1b[?25h\x1b[?1049l";
constexpr const char* kHome = "\x1b[H";
constexpr const char* kClearLine = "\x1b[K\r\n";
constexpr const char* kClearRest = "\x1b[K\x1b[J";

}  // namespace

LiveScreen::LiveScreen(int in_fd, int out_fd) : in_fd_(in_fd), out_fd_(out_fd) {
  termios now{};
  if (::tcgetattr(in_fd_, &now) == 0) {
    before_ = now;
    now.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    ::tcsetattr(in_fd_, TCSANOW, &now);
  }
  write(kEnter);
}

LiveScreen::~LiveScreen() {
  write(kLeave);
  if (before_) ::tcsetattr(in_fd_, TCSANOW, &*before_);
}

bool LiveScreen::write(const std::string& bytes) {
  return base::write_all_blocking(out_fd_, bytes.data(), bytes.size()).ok();
}

bool LiveScreen::draw(const std::string& text) {
  winsize size{};
  const bool is_known = ::ioctl(out_fd_, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0;
  const std::string page = fit_screen(text, is_known ? size.ws_row : 24, is_known ? size.ws_col : 80);
  std::string bytes = kHome;
  bool is_first = true;
  for (const std::string_view line : base::split(page, '\n')) {
    if (!is_first) bytes += kClearLine;
    is_first = false;
    bytes += line;
  }
  return write(bytes + kClearRest);
}

}  // namespace muster::cli::view
