// Terminal is one destination of the launcher's text: a terminal, a pipe or a file. Several threads write to it. It
// shows whole lines of ranks, the launcher's own notices, and a status line. The status line is erased before other
// text and drawn again after it.
//
// Thread: any. Writers take turns in the order of their arrival.
// Errors: cancel() ends a blocked write. After cancel() or a failed write the terminal drops all text. Writes never set
// O_NONBLOCK on the shared descriptor, because the caller's shell would see that flag.
//
// Example:
//   Terminals terminals(1, 2);
//   ConsoleSink sink(terminals.out(), terminals.err(), &clock, {.size = 16});
//   NoticeWriter notices(terminals.err());
//   notices.line("rank 3 on n2 exited with code 1");  // hvdrun: rank 3 on n2 exited with code 1
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "base/clock.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace muster::launcherd::inline output {

// Says how output follows the text before it. kFresh: it begins its own line. kContinues: it continues the unfinished
// line. kCloses: it begins with a '\n' that closes that line.
enum class Join { kFresh, kContinues, kCloses };

class Terminal {
 public:
  Terminal(int fd, std::string name);  // `fd` is borrowed; `name` is for errors: "stdout"
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  // Writes text of ranks. `open_label` is the label of the line that the previous call left unfinished. A notice may
  // have closed that line since. If so, text that continues the line gets the label again, and a '\n' that closes the
  // line is left out. CANCELLED: the destination has no reader, or cancel() was called. The error is reported once;
  // later calls drop the text and return ok.
  base::Status write_output(std::string_view text, Join join, std::string_view open_label);

  // Writes bytes of a rank that uses this terminal as its own. The bytes are not changed.
  base::Status write_bytes(std::string_view bytes);

  // Writes one line of the launcher, with its '\n', at the beginning of a line.
  base::Status write_notice(std::string_view line);

  // Shows `text` below all other text until the next call. "" removes it. The text is cut to the terminal's width. No
  // effect if the destination is not a terminal.
  base::Status set_status(std::string_view text);

  // Any thread. Ends a blocked write. Nothing is written afterwards.
  void cancel();

  // Any thread. Sets whether the terminal is in raw mode, where our '\n' needs a '\r'.
  void set_raw(bool is_raw) { is_raw_ = is_raw && is_tty_; }

  bool is_tty() const { return is_tty_; }
  int fd() const { return fd_; }

 private:
  class Turn;
  base::Status write_all(std::string_view text);
  base::Status write_lines(std::string_view text);
  base::Status write_some(std::string_view* text);
  base::Status wait_writable();
  std::string visible_status() const;
  base::Status hide_status();
  base::Status show_status();
  base::Status report_once(base::Status status);

  const int fd_;
  const std::string name_;
  // The same pipe or terminal, opened again with O_NONBLOCK. Invalid if that was impossible.
  base::UniqueFd own_fd_;
  // An eventfd that stays readable after cancel(). Invalid if no descriptor was left.
  base::UniqueFd cancel_fd_;
  std::atomic<bool> is_cancelled_ = false;
  bool is_tty_ = false;
  bool is_socket_ = false;
  bool is_plain_file_ = false;

  std::atomic<bool> is_raw_ = false;

  // Guards the two tickets only. The members below belong to the thread whose turn it is.
  std::mutex mutex_;
  std::condition_variable turn_changed_;
  std::uint64_t next_ticket_ = 0;
  std::uint64_t serving_ = 0;

  bool is_mid_line_ = false;  // true if the last byte was not '\n'
  // True if the line is unfinished, write_output wrote it, and nothing followed.
  bool is_output_open_ = false;
  // True if the line is unfinished and write_bytes wrote it.
  bool are_bytes_open_ = false;
  bool is_failed_ = false;
  std::string status_;
  bool is_status_shown_ = false;
};

// stdout and stderr of this process. Both streams share one Terminal if they are the same file.
class Terminals {
 public:
  Terminals(int out_fd, int err_fd);
  Terminal* out() { return &out_; }
  Terminal* err() { return err_ ? err_.get() : &out_; }
  void cancel();

 private:
  Terminal out_;
  std::unique_ptr<Terminal> err_;
};

// NoticeWriter writes the launcher's own lines on its own thread, so that the caller never waits for a stuck terminal.
// At most 1,000 lines wait. Further lines are only counted, and one line reports their number. Thread-safe.
class NoticeWriter {
 public:
  explicit NoticeWriter(Terminal* terminal, std::string prefix = "hvdrun: ");
  ~NoticeWriter();  // calls flush_blocking(now); drops the rest if the terminal is stuck

  void line(std::string_view text);    // one or more lines; each gets the prefix
  void status(std::string_view text);  // replaces the status line; only the newest is kept
  // Waits until everything is written. Returns false if the deadline passes first.
  bool flush_blocking(base::MonotonicTime deadline);

 private:
  void run();

  Terminal* const terminal_;
  const std::string prefix_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> queue_;
  std::size_t left_out_ = 0;
  std::string status_;
  bool is_status_new_ = false;
  bool is_writing_ = false;
  bool is_stopping_ = false;
  std::thread thread_;
};

}  // namespace muster::launcherd::output
