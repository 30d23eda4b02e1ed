// What the launcher sends as a rank's stdin, on its way into the rank's pipe or terminal. Writes what the rank takes
// and keeps the rest, which the launcher's window bounds (proto/input_window.h).
//
// Owned by the agent, one a rank; loop thread only. Destroying it closes the pipe: the rank sees the end of its input.
//
//   RankInput input(loop, std::move(started.stdin_fd), RankInput::Kind::kPipe, [](std::size_t bytes, bool closed) {…});
//   input.push(data);  input.end();
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "base/loop.h"
#include "base/unique_fd.h"

namespace muster::agent::inline io {

class RankInput {
 public:
  enum class Kind { kPipe, kTerminal };
  // `bytes` more of what was pushed have been written; `closed`, once: it takes no more, since nobody reads it or more
  // was pushed than the window allows. Must not destroy the RankInput.
  using OnTaken = std::function<void(std::size_t bytes, bool closed)>;

  // `fd`: non-blocking.
  RankInput(base::Loop& loop, base::UniqueFd fd, Kind kind, OnTaken on_taken);
  RankInput(const RankInput&) = delete;
  RankInput& operator=(const RankInput&) = delete;

  void push(std::string_view bytes);
  // After what was pushed: the pipe is closed; at a terminal its end-of-file character is typed, and again when a
  // program has changed between reading lines and reading keys, for which a character typed before counts no longer.
  void end();
  // Of a terminal; its foreground processes get SIGWINCH.
  void resize(unsigned short rows, unsigned short columns);

 private:
  void write_some();
  void type_end();
  void close(std::size_t taken);

  base::Loop& loop_;
  base::UniqueFd fd_;
  const Kind kind_;
  const OnTaken on_taken_;
  std::string queue_;
  std::size_t owed_ = 0;  // of queue_: pushed bytes, not yet told as taken
  char last_ = '\n';
  bool is_ending_ = false;
  bool ended_lines_ = false;  // the mode in which the end was typed last
  base::Timer room_watch_;    // armed while queue_ waits
  base::Timer mode_watch_;    // of a terminal whose end was typed
  base::Timer reader_watch_;  // of a pipe: the rank has closed its end
};

}  // namespace muster::agent::io
