#include "launcherd/agents/agent_channel.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/strings.h"
#include "proto/channel_mux.h"

namespace muster::launcherd::inline agents {

base::Result<LinkChoice> parse_link_line(std::string_view line) {
  constexpr std::string_view kDial = "MUSTER-LINK dial";
  constexpr std::string_view kSsh = "MUSTER-LINK ssh ";
  if (line == kDial) return LinkChoice{};
  if (line.starts_with(kSsh)) return LinkChoice{true, base::printable(line.substr(kSsh.size()))};
  return base::invalid_argument("the agent sent '{}' instead of a link line", base::printable(line.substr(0, 100)));
}

struct AgentChannel::State : std::enable_shared_from_this<AgentChannel::State> {
  State(base::Loop& loop_, base::UniqueFd stream_, Events events_)
      : loop(loop_), stream(std::move(stream_)), events(std::move(events_)) {}

  void readable();
  void choose(const LinkChoice& choice);
  void gone(const base::Status& status);

  base::Loop& loop;
  base::UniqueFd stream;
  Events events;
  base::Timer watch;
  std::string line;
  bool chosen = false;
  std::unique_ptr<proto::Mux> mux;
};

namespace {

constexpr std::size_t kMaxLinkLine = 1024;

}  // namespace

void AgentChannel::State::readable() {
  while (true) {
    // Read byte by byte up to the newline, because the bytes after it belong to the mux.
    char byte = 0;
    const ssize_t n = ::recv(stream.get(), &byte, 1, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) {
      gone(base::unavailable("the agent ended, or the connection to it was closed"));
      return;
    }
    if (chosen) continue;  // an agent that dials sends nothing more here
    if (byte != '\n') {
      line += byte;
      if (line.size() <= kMaxLinkLine) continue;
    }
    const auto choice = parse_link_line(line);
    if (!choice.ok()) {
      gone(choice.status());
      return;
    }
    choose(*choice);
    if (choice->over_ssh) return;
  }
}

void AgentChannel::State::choose(const LinkChoice& choice) {
  chosen = true;
  if (!choice.over_ssh) {
    events.on_link(choice, {}, {});
    return;
  }
  auto control = base::make_socketpair(SOCK_STREAM);
  auto output = base::make_socketpair(SOCK_STREAM);
  base::UniqueFd copy(::fcntl(stream.get(), F_DUPFD_CLOEXEC, 0));
  if (!control.ok() || !output.ok() || !copy.valid()) {
    gone(base::resource_exhausted(
        "no file descriptors are left to carry the agent's channels over ssh: raise `ulimit -n`"));
    return;
  }
  watch.cancel();
  std::vector<base::UniqueFd> locals;
  locals.push_back(std::move(control->first));
  locals.push_back(std::move(output->first));
  mux = std::make_unique<proto::Mux>(
      std::move(copy), std::move(stream), std::move(locals),
      [&loop = loop, weak = weak_from_this()](const base::Status& status) {
        loop.post([weak, status] {
          const auto self = weak.lock();
          if (self == nullptr) return;
          self->gone(status.ok() ? base::unavailable("the agent ended, or ssh was closed") : status);
        });
      });
  events.on_link(choice, std::move(control->second), std::move(output->second));
}

void AgentChannel::State::gone(const base::Status& status) {
  watch.cancel();
  stream.reset();  // a job whose hosts come and go keeps this channel
  const auto callback = std::exchange(events.on_gone, nullptr);
  if (callback) callback(status);
}

AgentChannel::AgentChannel(base::Loop& loop, base::UniqueFd stream, Events events)
    : state_(std::make_shared<State>(loop, std::move(stream), std::move(events))) {
  state_->watch = loop.on_readable(state_->stream.get(), [state = state_.get()] {
    const auto keep = state->shared_from_this();
    keep->readable();
  });
}

AgentChannel::~AgentChannel() {
  state_->watch.cancel();
  state_->events = {};
  state_->mux.reset();
}

}  // namespace muster::launcherd::agents
