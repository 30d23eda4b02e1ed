// The only file that includes curses.h.
// Read open() and the destructor first, then paint() and read_keys().
#include "cli/top/curses_screen.h"

// Without its macros, whose names (move, erase, timeout) are also ours.
#define NCURSES_NOMACROS 1
#define NCURSES_WIDECHAR 1
#include <curses.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/strings.h"

namespace muster::cli::inline top {
namespace {

constexpr int kEscapeDelay = 25;  // ms that the bytes of one key may be apart, also over ssh; a lone Esc waits as long

// Keeps the handlers of the signals that newterm() would handle itself. Its handlers draw, from any thread.
class KeptHandlers {
 public:
  KeptHandlers() {
    for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals.at(i), nullptr, &before_.at(i));
  }
  ~KeptHandlers() {
    for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals.at(i), &before_.at(i), nullptr);
  }
  KeptHandlers(const KeptHandlers&) = delete;
  KeptHandlers& operator=(const KeptHandlers&) = delete;

 private:
  static constexpr std::array<int, 4> kSignals{SIGINT, SIGTERM, SIGTSTP, SIGWINCH};

  std::array<struct sigaction, kSignals.size()> before_{};
};

// Makes the user's character set that of ncurses while it exists. Without a locale of the user it is UTF-8, as nearly
// all terminals have it.
class TerminalLocale {
 public:
  TerminalLocale() {
    if (const char* now = ::setlocale(LC_CTYPE, nullptr); now != nullptr) before_ = now;
    const char* users = ::setlocale(LC_CTYPE, "");
    const std::string_view name = users == nullptr ? "C" : users;
    if (name == "C" || name == "POSIX") ::setlocale(LC_CTYPE, "C.UTF-8");
    is_utf8_ = std::string_view(::nl_langinfo(CODESET)) == "UTF-8";
  }
  ~TerminalLocale() {
    if (!before_.empty()) ::setlocale(LC_CTYPE, before_.c_str());
  }
  TerminalLocale(const TerminalLocale&) = delete;
  TerminalLocale& operator=(const TerminalLocale&) = delete;

  bool is_utf8() const { return is_utf8_; }

 private:
  std::string before_;
  bool is_utf8_ = false;
};

base::Status unusable(const std::string& term, std::string_view why) {
  if (term.empty()) {
    return base::invalid_argument("TERM is not set: set it to the kind of your terminal, such as xterm, or use --once");
  }
  return base::invalid_argument(
      "TERM={}: {}; set TERM to a kind that this host knows, such as xterm, or use --once for plain text",
      base::printable(term), why);
}

// Numbers of our color pairs. 0 is the terminal's own pair.
enum ColorPair : short { kGreen = 1, kYellow, kRed, kCyan };

attr_t look_of(TextStyle style, bool has_colors) {
  const auto colored = [has_colors](ColorPair pair, attr_t without) {
    return has_colors ? static_cast<attr_t>(COLOR_PAIR(pair)) : without;
  };
  switch (style) {
    case TextStyle::kStrong:
      return A_BOLD;
    case TextStyle::kHeading:
      return A_BOLD;
    case TextStyle::kTitle:
      return A_UNDERLINE;
    case TextStyle::kActive:
      return A_UNDERLINE | A_BOLD;
    case TextStyle::kFaint:
      return A_DIM;
    case TextStyle::kGood:
      return colored(kGreen, A_NORMAL);
    case TextStyle::kWaiting:
      return colored(kYellow, A_NORMAL);
    case TextStyle::kBad:
      return colored(kRed, A_BOLD) | A_BOLD;
    case TextStyle::kNews:
      return colored(kCyan, A_NORMAL);
    default:
      return A_NORMAL;
  }
}

// Returns the text for a terminal that knows only ASCII.
std::string ascii_of(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80) result += c;
    if (byte >= 0xc0) result += '?';  // the first byte of a character
  }
  return result;
}

TopKey named_key(wint_t code) {
  switch (code) {
    case KEY_UP:
      return TopKey::kUp;
    case KEY_DOWN:
      return TopKey::kDown;
    case KEY_PPAGE:
      return TopKey::kPageUp;
    case KEY_NPAGE:
      return TopKey::kPageDown;
    case KEY_HOME:
      return TopKey::kHome;
    case KEY_END:
      return TopKey::kEnd;
    case KEY_ENTER:
      return TopKey::kEnter;
    case KEY_BACKSPACE:
      return TopKey::kBackspace;
    case KEY_BTAB:
      return TopKey::kTab;
    default:
      return TopKey::kOther;
  }
}

std::string utf8_of(wint_t code) {
  const auto byte = [](unsigned value) { return static_cast<char>(value); };
  if (code < 0x80) return {byte(code)};
  if (code < 0x800) return {byte(0xc0U | (code >> 6)), byte(0x80U | (code & 0x3fU))};
  if (code < 0x10000) {
    return {byte(0xe0U | (code >> 12)), byte(0x80U | ((code >> 6) & 0x3fU)), byte(0x80U | (code & 0x3fU))};
  }
  return {byte(0xf0U | (code >> 18)), byte(0x80U | ((code >> 12) & 0x3fU)), byte(0x80U | ((code >> 6) & 0x3fU)),
          byte(0x80U | (code & 0x3fU))};
}

KeyPress typed_key(wint_t code) {
  constexpr wint_t kCtrlU = 21;
  switch (code) {
    case '\n':
    case '\r':
      return {.key = TopKey::kEnter};
    case '\t':
      return {.key = TopKey::kTab};
    case '\x1b':
      return {.key = TopKey::kEscape};
    case '\b':
    case 0x7f:
      return {.key = TopKey::kBackspace};
    case kCtrlU:
      return {.key = TopKey::kClearLine};
    default:
      if (code < 0x20) return {.key = TopKey::kOther};
      return {.key = TopKey::kText, .text = utf8_of(code)};
  }
}

KeyPress mouse_key() {
  MEVENT event{};
  if (::getmouse(&event) != OK) return {.key = TopKey::kOther};
  const auto press = [&event](TopKey key) { return KeyPress{.key = key, .row = event.y}; };
  if ((event.bstate & BUTTON4_PRESSED) != 0) return press(TopKey::kWheelUp);
  if ((event.bstate & BUTTON5_PRESSED) != 0) return press(TopKey::kWheelDown);
  if ((event.bstate & (BUTTON1_PRESSED | BUTTON1_CLICKED)) != 0) return press(TopKey::kClick);
  return {.key = TopKey::kOther};
}

// Returns true if stdin is readable, but has no byte: nobody holds the terminal's other end.
bool is_input_gone() {
  pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  if (::poll(&input, 1, 0) <= 0) return false;
  if ((input.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0) return true;
  int bytes = 0;
  return (input.revents & POLLIN) != 0 && ::ioctl(STDIN_FILENO, FIONREAD, &bytes) == 0 && bytes == 0;
}

}  // namespace

struct CursesScreen::State {
  TerminalLocale locale{};
  SCREEN* screen = nullptr;
  bool has_colors = false;
  bool is_suspended = false;
};

base::Result<std::unique_ptr<CursesScreen>> CursesScreen::open(const CursesOptions& options) {
  if (options.term.empty()) return unusable(options.term, {});
  auto state = std::make_unique<State>();
  {
    const KeptHandlers kept;
    state->screen = ::newterm(options.term.c_str(), stdout, stdin);
  }
  if (state->screen == nullptr) return unusable(options.term, "this host does not know such a terminal");
  std::unique_ptr<CursesScreen> result(new CursesScreen(std::move(state)));
  if (::tigetstr("cup") == nullptr) {
    result.reset();
    return unusable(options.term, "such a terminal cannot move its cursor");
  }
  ::cbreak();
  ::noecho();
  ::nonl();
  ::set_escdelay(kEscapeDelay);
  ::keypad(stdscr, TRUE);
  ::nodelay(stdscr, TRUE);
  ::leaveok(stdscr, FALSE);
  ::curs_set(0);
  if (options.has_mouse) {
    ::mouseinterval(0);
    ::mousemask(BUTTON1_PRESSED | BUTTON4_PRESSED | BUTTON5_PRESSED, nullptr);
  }
  if (options.has_colors && ::has_colors() && ::start_color() == OK) {
    const short background = ::use_default_colors() == OK ? short{-1} : short{COLOR_BLACK};
    result->state_->has_colors = true;
    ::init_pair(kGreen, COLOR_GREEN, background);
    ::init_pair(kYellow, COLOR_YELLOW, background);
    ::init_pair(kRed, COLOR_RED, background);
    ::init_pair(kCyan, COLOR_CYAN, background);
  }
  result->resize();
  return result;
}

CursesScreen::CursesScreen(std::unique_ptr<State> state) : state_(std::move(state)) {}

CursesScreen::~CursesScreen() {
  if (!state_->is_suspended) ::endwin();
  ::delscreen(state_->screen);
}

TerminalSize CursesScreen::size() const {
  return {.rows = getmaxy(stdscr), .columns = getmaxx(stdscr)};
}

void CursesScreen::resize() {
  const TerminalSize now = terminal_size();
  ::resizeterm(now.rows, now.columns);
  ::clearok(curscr, TRUE);  // a terminal may have moved its lines
}

void CursesScreen::paint(const TopFrame& frame) {
  if (state_->is_suspended) return;
  ::werase(stdscr);
  const int rows = size().rows;
  for (int row = 0; row < rows && row < std::ssize(frame.lines); ++row) {
    const StyledLine& line = frame.lines[static_cast<std::size_t>(row)];
    ::wmove(stdscr, row, 0);
    for (const StyledText& part : line.parts) {
      const attr_t look = look_of(part.style, state_->has_colors) | (line.is_selected ? A_REVERSE : A_NORMAL);
      ::wattrset(stdscr, static_cast<int>(look));
      const std::string text = state_->locale.is_utf8() ? part.text : ascii_of(part.text);
      ::waddnstr(stdscr, text.data(), static_cast<int>(text.size()));
    }
  }
  ::wattrset(stdscr, static_cast<int>(A_NORMAL));
  ::curs_set(frame.cursor_column ? 1 : 0);
  if (frame.cursor_column) ::wmove(stdscr, rows - 1, *frame.cursor_column);
  ::wrefresh(stdscr);
}

std::optional<std::vector<KeyPress>> CursesScreen::read_keys() {
  constexpr wint_t kCtrlL = 12;
  std::vector<KeyPress> keys;
  for (;;) {
    wint_t code = 0;
    const int kind = ::wget_wch(stdscr, &code);
    if (kind == ERR) break;
    if (kind == KEY_CODE_YES) {
      keys.push_back(code == KEY_MOUSE ? mouse_key() : KeyPress{.key = named_key(code)});
    } else if (code == kCtrlL) {
      ::clearok(curscr, TRUE);
    } else {
      keys.push_back(typed_key(code));
    }
  }
  if (keys.empty() && is_input_gone()) return std::nullopt;
  return keys;
}

void CursesScreen::suspend() {
  ::endwin();
  state_->is_suspended = true;
}

void CursesScreen::resume() {
  state_->is_suspended = false;
  ::reset_prog_mode();
  ::wrefresh(stdscr);
  resize();
}

}  // namespace muster::cli::top
