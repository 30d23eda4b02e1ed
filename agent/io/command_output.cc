#include "agent/io/command_output.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "proto/input_window.h"

namespace muster::agent::inline io {

CommandOutput::CommandOutput(base::Loop& loop, base::UniqueFd out, base::UniqueFd err, Events events)
    : loop_(loop), events_(std::move(events)), fds_{std::move(out), std::move(err)} {
  watch();
}

bool CommandOutput::is_open() const {
  return std::ranges::any_of(fds_, [](const base::UniqueFd& fd) { return fd.valid(); });
}

void CommandOutput::watch() {
  const bool has_room = under_way_ < proto::kExecWindow;
  for (std::size_t stream = 0; stream < kStreams; ++stream) {
    if (!has_room || !fds_[stream].valid()) {
      watches_[stream].cancel();
    } else if (!watches_[stream].armed()) {
      watches_[stream] = loop_.on_readable(fds_[stream].get(), [this, stream] {
        read_some(stream);
        watch();
        check_end();
      });
    }
  }
}

// Reads until the pipe is empty or the window is full.
void CommandOutput::read_some(std::size_t stream) {
  while (fds_[stream].valid() && under_way_ < proto::kExecWindow) {
    std::string data(std::min(proto::kExecPiece, proto::kExecWindow - under_way_), '\0');
    const ssize_t n = ::read(fds_[stream].get(), data.data(), data.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) {  // a terminal without a process fails with EIO
      watches_[stream].cancel();
      fds_[stream].reset();
      return;
    }
    data.resize(static_cast<std::size_t>(n));
    under_way_ += data.size();
    events_.on_data(std::move(data), stream == 1);
  }
}

void CommandOutput::taken(std::size_t bytes) {
  under_way_ -= std::min(bytes, under_way_);
  for (std::size_t stream = 0; is_finishing_ && stream < kStreams; ++stream) read_some(stream);
  watch();
  check_end();
}

void CommandOutput::finish() {
  if (std::exchange(is_finishing_, true)) return;
  for (std::size_t stream = 0; stream < kStreams; ++stream) read_some(stream);
  watch();
  check_end();
}

void CommandOutput::check_end() {
  if (!is_finishing_ || has_ended_) return;
  if (is_open()) {
    // A full window says nothing about the pipes. The time begins when they were seen to be empty.
    if (under_way_ >= proto::kExecWindow) {
      drain_.cancel();
    } else if (!drain_.armed()) {
      drain_ = loop_.after(kDrain, [this] {
        for (base::Timer& each : watches_) each.cancel();
        for (base::UniqueFd& fd : fds_) fd.reset();
        check_end();
      });
    }
    return;
  }
  has_ended_ = true;
  drain_.cancel();
  events_.on_end();
}

}  // namespace muster::agent::io
