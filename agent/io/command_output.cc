#include "agent/io/command_output.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "proto/input_window.h"

namespace muster::agent::inline io {
namespace {

// The kernel does not say how much a terminal holds. This is more than it can.
constexpr std::size_t kTerminalHolds = std::size_t{128} << 10;

}  // namespace

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
    if (n < 0 && errno == EAGAIN) {
      owed_[stream] = 0;
      return;
    }
    if (n <= 0) {  // a terminal without a process fails with EIO
      owed_[stream] = 0;
      watches_[stream].cancel();
      fds_[stream].reset();
      return;
    }
    data.resize(static_cast<std::size_t>(n));
    under_way_ += data.size();
    owed_[stream] -= std::min(data.size(), owed_[stream]);
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
  for (std::size_t stream = 0; stream < kStreams; ++stream) owed_[stream] = waiting_in(stream);
  for (std::size_t stream = 0; stream < kStreams; ++stream) read_some(stream);
  watch();
  check_end();
}

// Returns how many bytes may wait to be read.
std::size_t CommandOutput::waiting_in(std::size_t stream) const {
  if (!fds_[stream].valid()) return 0;
  if (::isatty(fds_[stream].get()) != 0) return kTerminalHolds;
  int bytes = 0;
  return ::ioctl(fds_[stream].get(), FIONREAD, &bytes) == 0 && bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
}

void CommandOutput::check_end() {
  if (!is_finishing_ || has_ended_) return;
  if (is_open()) {
    // The time runs once only: a process that keeps writing must not hold the end back.
    const bool is_owed = std::ranges::any_of(owed_, [](std::size_t bytes) { return bytes > 0; });
    if (!is_owed && !drain_.armed()) {
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
