// The launcher's own terminal: who it belongs to at the moment, its size, and raw mode for the rank that has --pty.
//
// Loop thread only. None of this ever stops the process: SIGTTIN and SIGTTOU are held off around each call.
#pragma once

#include <sys/types.h>
#include <termios.h>

#include <cstddef>
#include <optional>

namespace muster::cli::inline view {

// False: the terminal's keys belong to another process group, as with `hvdrun … &`. True also for what is no terminal
// of this session, which anybody may read.
bool is_foreground(int fd);

// read(2) that fails with EIO in the background.
ssize_t read_quietly(int fd, char* into, std::size_t size);

struct TerminalSize {
  int rows = 24;
  int columns = 80;
};

// Of the first of stdin, stdout and stderr that is a terminal and knows its size.
TerminalSize terminal_size();

// While raw every key is a byte, Ctrl-C as well. The terminal gets its former mode back by leave() or destruction,
// unless it belongs to others by then, who have set their own.
class RawTerminal {
 public:
  explicit RawTerminal(int fd) : fd_(fd) {}  // borrowed
  ~RawTerminal() { leave(); }
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;

  // True: it is raw now. False: no terminal, or not ours at the moment.
  bool enter();
  void leave();

 private:
  const int fd_;
  std::optional<termios> before_;
};

}  // namespace muster::cli::view
