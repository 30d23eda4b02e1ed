#include "launcherd/doctor/probe_link.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "proto/frame.h"

namespace muster::launcherd::inline doctor {

struct ProbeLink::State : std::enable_shared_from_this<ProbeLink::State> {
  State(base::Loop& loop_, base::UniqueFd stream_) : loop(loop_), stream(std::move(stream_)) {}

  void ask(const v1::ProbeCommand& command, base::Duration timeout, Done done_);
  void readable();
  void send();
  void finish(base::Result<v1::ProbeAnswer> answer);
  void finish_later(const base::Status& status);
  base::Result<std::optional<v1::ProbeAnswer>> read_answer();

  base::Loop& loop;
  base::UniqueFd stream;
  base::Timer watch;
  base::Timer deadline;
  std::string unsent;  // bytes of the command
  base::Timer writable;
  proto::FrameReader frames;
  Done done;
};

void ProbeLink::State::ask(const v1::ProbeCommand& command, base::Duration timeout, Done done_) {
  MUSTER_CHECK(!done);
  done = std::move(done_);
  const auto seconds = std::chrono::duration<double>(timeout).count();
  deadline = loop.after(timeout, [this, seconds] {
    finish(base::deadline_exceeded("the agent did not answer within {:.0f} s", seconds));
  });
  auto frame = proto::frame_message(command);
  if (frame.ok()) {
    unsent = *std::move(frame);
    return send();
  }
  finish_later(base::error(frame.status().code(),
                           "cannot send this command's environment to the agent: {}; leave it out with --env-none, or "
                           "pass single variables with -x NAME",
                           frame.status().message()));
}

void ProbeLink::State::send() {
  const ssize_t sent = ::send(stream.get(), unsent.data(), unsent.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent < 0 && errno != EAGAIN && errno != EINTR) {
    writable.cancel();
    return finish_later(base::unavailable("the connection to its agent was lost"));
  }
  unsent.erase(0, static_cast<std::size_t>(std::max<ssize_t>(sent, 0)));
  if (unsent.empty()) {
    writable.cancel();
  } else if (!writable.armed()) {
    writable = loop.on_writable(stream.get(), [this] {
      const auto keep = shared_from_this();
      send();
    });
  }
}

// Finishes from the loop, so that `done` never runs inside ask().
void ProbeLink::State::finish_later(const base::Status& status) {
  loop.post([weak = weak_from_this(), status] {
    if (const auto self = weak.lock()) self->finish(status);
  });
}

void ProbeLink::State::readable() {
  char buffer[16 * 1024];
  const ssize_t n = ::recv(stream.get(), buffer, sizeof buffer, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) {
    watch.cancel();
    finish(base::unavailable("its agent ended, or the connection to it was closed"));
    return;
  }
  // No command is in progress. Stop reading, so that unexpected data does not pile up.
  if (!done) {
    watch.cancel();
    return;
  }
  frames.feed({buffer, static_cast<std::size_t>(n)});
  auto answer = read_answer();
  if (!answer.ok()) {
    finish(answer.status());
  } else if (*answer) {
    finish(**std::move(answer));
  }
}

base::Result<std::optional<v1::ProbeAnswer>> ProbeLink::State::read_answer() {
  MUSTER_ASSIGN_OR_RETURN(const auto body, frames.next());
  if (!body) return std::optional<v1::ProbeAnswer>();
  v1::ProbeAnswer answer;
  if (answer.ParseFromString(*body)) return std::optional(std::move(answer));
  return base::invalid_argument("cannot parse the answer of its agent");
}

void ProbeLink::State::finish(base::Result<v1::ProbeAnswer> answer) {
  deadline.cancel();
  writable.cancel();
  unsent.clear();
  const Done callback = std::exchange(done, nullptr);
  if (callback) callback(std::move(answer));
}

ProbeLink::ProbeLink(base::Loop& loop, base::UniqueFd stream)
    : state_(std::make_shared<State>(loop, std::move(stream))) {
  state_->watch = loop.on_readable(state_->stream.get(), [state = state_.get()] {
    const auto keep = state->shared_from_this();
    keep->readable();
  });
}

ProbeLink::~ProbeLink() {
  state_->watch.cancel();
  state_->deadline.cancel();
  state_->writable.cancel();
  state_->done = nullptr;
}

void ProbeLink::ask(const v1::ProbeCommand& command, base::Duration timeout, Done done) {
  state_->ask(command, timeout, std::move(done));
}

}  // namespace muster::launcherd::doctor
