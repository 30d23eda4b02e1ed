// One destination of the launcher's text (a terminal, a pipe, a file) that several threads write to: whole lines of
// ranks, the launcher's own notices, and a status line that is erased before anything else and drawn again after it.
//
// Writers take turns, first come first served. A blocked write waits outside of O_NONBLOCK on the shared descriptor
// (the caller's shell would see that flag) and ends when cancel() is called. After cancel() or a failed write
// everything is dropped. Thread-safe.
//
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

// How a piece of output follows what was written before it: on a line of its own, as more of the unfinished line, or
// with a '\n' first that closes that line.
enum class Join { kFresh, kContinues, kCloses };

class Terminal {
 public:
  Terminal(int fd, std::string name);  // fd is borrowed; name is for errors: "stdout"
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  // Text of ranks. `open_label` is the label of the line that the call before left unfinished, for the case that a
  // notice has closed that line since: text that continues it then gets the label again, a '\n' that closes it is left
  // out. CANCELLED: nobody reads any more, or cancel(); reported once, later calls drop and return ok.
  base::Status write_output(std::string_view text, Join join, std::string_view open_label);

  // Bytes of a rank that believes this terminal to be its own: passed on as they are.
  base::Status write_bytes(std::string_view bytes);

  // A whole line of the launcher, '\n' included; starts on a line of its own.
  base::Status write_notice(std::string_view line);

  // Shown below everything until replaced; "" removes it. Ignored unless this is a terminal. Cut to its width.
  base::Status set_status(std::string_view text);

  // From any thread: ends a blocked write; nothing is written from now on.
  void cancel();

  // From any thread: whether the terminal is in raw mode, where a '\n' of ours needs its '\r'.
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
  base::Status once(base::Status status);

  const int fd_;
  const std::string name_;
  base::UniqueFd own_fd_;  // the same pipe or terminal, opened again with O_NONBLOCK; invalid where that is impossible
  base::UniqueFd cancel_fd_;  // eventfd, readable for ever after cancel(); invalid: no descriptor was left
  std::atomic<bool> is_cancelled_ = false;
  bool is_tty_ = false;
  bool is_socket_ = false;
  bool is_plain_file_ = false;

  std::atomic<bool> is_raw_ = false;

  std::mutex mutex_;  // guards the two tickets only; the fields below belong to whose turn it is
  std::condition_variable turn_changed_;
  std::uint64_t next_ticket_ = 0;
  std::uint64_t serving_ = 0;

  bool is_mid_line_ = false;     // the last byte was not '\n'
  bool is_output_open_ = false;  // … and it was write_output's, with nothing after it
  bool are_bytes_open_ = false;  // … and it was write_bytes's
  bool is_failed_ = false;
  std::string status_;
  bool is_status_shown_ = false;
};

// stdout and stderr of this process; one Terminal when both are the same file.
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

// The launcher's own lines, written by a thread of its own so that the caller never waits for a stuck terminal. At most
// 1,000 lines wait; beyond that lines are counted and one line says how many were left out. Thread-safe.
class NoticeWriter {
 public:
  explicit NoticeWriter(Terminal* terminal, std::string prefix = "hvdrun: ");
  ~NoticeWriter();  // flush_blocking(now): what is not out by then is dropped if the terminal is stuck

  void line(std::string_view text);    // one or several lines; each gets the prefix
  void status(std::string_view text);  // replaces the status line; only the newest is kept
  // Waits until everything is written. False: the deadline came first.
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
