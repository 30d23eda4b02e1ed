// Reads the output of a command that runs beside a rank (muster exec), as fast as its reader takes it. At most
// proto::kExecWindow bytes are under way to the reader. Then the pipes fill, and the command blocks.
//
// Owner: RankCommands, which has one for each command that has started.
// Thread: the loop thread only.
// Callbacks come from the loop, or from within finish() and taken(). They must not destroy this object.
//
// Example:
//   CommandOutput output(loop, std::move(started.stdout_fd), std::move(started.stderr_fd), {.on_data = …, .on_end =
//   …}); output.taken(bytes);  // the reader has them output.finish();      // the command has ended: on_end follows
//   the last bytes
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

#include "base/loop.h"
#include "base/unique_fd.h"

namespace muster::agent::inline io {

class CommandOutput {
 public:
  // Once all that was written before finish() has been read, another process that holds the pipes may write for so
  // long.
  static constexpr std::chrono::milliseconds kDrain{200};

  struct Events {
    std::function<void(std::string data, bool is_stderr)> on_data;
    std::function<void()> on_end;  // once: finish() was called, and all that was written before it has been read
  };

  // The descriptors must be non-blocking. With a terminal, `err` is invalid.
  CommandOutput(base::Loop& loop, base::UniqueFd out, base::UniqueFd err, Events events);
  CommandOutput(const CommandOutput&) = delete;
  CommandOutput& operator=(const CommandOutput&) = delete;

  // The reader has taken so many more bytes. It cannot take more than it was given.
  void taken(std::size_t bytes);
  void finish();

 private:
  static constexpr std::size_t kStreams = 2;

  void read_some(std::size_t stream);
  void watch();
  void check_end();
  std::size_t waiting_in(std::size_t stream) const;
  bool is_open() const;

  base::Loop& loop_;
  const Events events_;
  std::array<base::UniqueFd, kStreams> fds_;
  std::size_t under_way_ = 0;  // bytes given to on_data and not taken
  bool is_finishing_ = false;
  std::array<std::size_t, kStreams> owed_{};  // after finish(): bytes that may have been written before it
  bool has_ended_ = false;
  std::array<base::Timer, kStreams> watches_;  // armed while the stream is open and the window has room
  base::Timer drain_;
};

}  // namespace muster::agent::io
