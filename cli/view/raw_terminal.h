// Handles the launcher's own terminal: which process group it belongs to, its size, and raw mode for the rank with
// --pty.
// Thread: loop thread only.
// None of these calls stops the process, because SIGTTIN and SIGTTOU are blocked around each call.
#pragma once

#include <sys/types.h>
#include <termios.h>

#include <cstddef>
#include <optional>

namespace muster::cli::inline view {

// Returns false if the terminal's keys belong to another process group, as with `hvdrun … &`. Returns true if `fd` is
// no terminal of this session, because any process may read it then.
bool is_foreground(int fd);

// Reads like read(2), but fails with EIO in the background.
ssize_t read_quietly(int fd, char* into, std::size_t size);

struct TerminalSize {
  int rows = 24;
  int columns = 80;
};

// Returns the size of the first of stdin, stdout and stderr that is a terminal and knows its size.
TerminalSize terminal_size();

// Switches a terminal to raw mode. In raw mode every key is a byte, even Ctrl-C. leave() or destruction restores the
// former mode, unless the terminal belongs to another process group by then, which has set its own mode.
class RawTerminal {
 public:
  explicit RawTerminal(int fd) : fd_(fd) {}  // borrowed
  ~RawTerminal() { leave(); }
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;

  // Returns true if the terminal is raw now. Returns false if it is no terminal, or is not ours at the moment.
  bool enter();
  void leave();

 private:
  const int fd_;
  std::optional<termios> before_;
};

}  // namespace muster::cli::view
