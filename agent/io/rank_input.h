// Carries a rank's stdin from the launcher into the rank's pipe or terminal. It writes as much as the pipe accepts and
// keeps the rest. The launcher's window bounds the rest (proto/input_window.h).
//
// Owner: RankInputs, which has one for each rank.
// Thread: the loop thread only.
// The destructor closes the pipe, so that the rank sees the end of its input.
//
// Example:
//   RankInput input(loop, std::move(started.stdin_fd), RankInput::Kind::kPipe, [](std::size_t bytes, bool closed)
//   {…});
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
  // Reports that `bytes` more of the pushed bytes have been written. `closed` is true once, if input ends because
  // nothing reads it or because more was pushed than the window allows. The callback must not destroy the RankInput.
  using OnTaken = std::function<void(std::size_t bytes, bool closed)>;

  // `fd` must be non-blocking.
  RankInput(base::Loop& loop, base::UniqueFd fd, Kind kind, OnTaken on_taken);
  RankInput(const RankInput&) = delete;
  RankInput& operator=(const RankInput&) = delete;

  void push(std::string_view bytes);
  // Ends the input after what was pushed. It closes a pipe; at a terminal it types the end-of-file character.
  // It types that character again if a program switches between reading lines and reading keys, because the switch
  // discards a character typed before.
  void end();
  // Sets the size of a terminal. The kernel sends SIGWINCH to its foreground processes.
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
  std::size_t owed_ = 0;  // pushed bytes in queue_ that are not yet reported as written
  char last_ = '\n';
  bool is_ending_ = false;
  bool ended_lines_ = false;  // true if the terminal read lines when the end was typed last
  base::Timer room_watch_;    // armed while queue_ is not empty
  base::Timer mode_watch_;    // armed for a terminal whose end was typed
  base::Timer reader_watch_;  // armed for a pipe; fires when the rank has closed its end
};

}  // namespace muster::agent::io
