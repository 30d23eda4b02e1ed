// Programs on a libssh session: LibsshProgram serves the worker's thread, LibsshStream the pump's thread.
// Read WatchedChannel first, then LibsshProgram::exchange and release, then LibsshStream::serve.
#include <libssh/callbacks.h>
#include <libssh/libssh.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "launcherd/bootstrap/byte_queue.h"
#include "launcherd/bootstrap/child.h"
#include "launcherd/ssh/libssh_session.h"

namespace muster::launcherd::inline ssh {

// A channel, and the state that libssh's callbacks recorded. Any call into libssh may receive packets, even those for
// which the caller has just checked. libssh buffers received data, which makes no descriptor readable. So check that
// has_activity is false before you wait.
struct WatchedChannel {
  explicit WatchedChannel(ssh_channel channel);
  ~WatchedChannel();
  WatchedChannel(const WatchedChannel&) = delete;
  WatchedChannel& operator=(const WatchedChannel&) = delete;

  const ssh_channel handle;
  bool has_activity = false;  // data, EOF or close has arrived
  int exit_signal = 0;

 private:
  ssh_channel_callbacks_struct callbacks_{};
};

namespace {

int number_of_signal(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, int>, 12> kSignals = {{{"ABRT", 6},
                                                                          {"ALRM", 14},
                                                                          {"BUS", 7},
                                                                          {"FPE", 8},
                                                                          {"HUP", 1},
                                                                          {"ILL", 4},
                                                                          {"INT", 2},
                                                                          {"KILL", 9},
                                                                          {"PIPE", 13},
                                                                          {"QUIT", 3},
                                                                          {"SEGV", 11},
                                                                          {"TERM", 15}}};
  for (const auto& [known, number] : kSignals) {
    if (name == known) return number;
  }
  return 0;
}

constexpr std::size_t kQueueLimit = 512 * 1024;  // bytes per direction
constexpr std::uint32_t kStreamPiece = 32 * 1024;
constexpr auto kUnreadPatience = std::chrono::milliseconds(100);
constexpr auto kCloseGrace = std::chrono::milliseconds(2000);

enum class ReadEnd { kMore, kEof, kLost };

// Passes available bytes to `sink` until it returns false.
template <typename Sink>
ReadEnd read_channel(ssh_channel channel, int is_stderr, Sink&& sink) {
  char buffer[kStreamPiece];
  for (;;) {
    const int count = ::ssh_channel_read_nonblocking(channel, buffer, sizeof buffer, is_stderr);
    if (count == 0) return ReadEnd::kMore;
    if (count == SSH_EOF) return ReadEnd::kEof;
    if (count < 0) return ReadEnd::kLost;
    if (!sink(std::string_view(buffer, static_cast<std::size_t>(count)))) return ReadEnd::kMore;
  }
}

// Writes as many bytes as window and socket accept. Returns -1 if the connection is lost.
int write_channel(const LibsshSession& session, ssh_channel channel, std::string_view bytes) {
  int written = 0;
  while (!bytes.empty() && !session.is_write_pending()) {
    const auto size = static_cast<std::uint32_t>(std::min<std::size_t>(bytes.size(), kStreamPiece));
    const int count = ::ssh_channel_write(channel, bytes.data(), size);
    if (count < 0) return -1;
    if (count == 0) break;
    written += count;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return written;
}

// True if bytes are waiting and can be written now.
bool may_write(const LibsshSession& session, ssh_channel channel, bool has_bytes) {
  return has_bytes && !session.is_write_pending() && ::ssh_channel_is_open(channel) != 0 &&
         ::ssh_channel_window_size(channel) > 0;
}

}  // namespace

WatchedChannel::WatchedChannel(ssh_channel channel) : handle(channel) {
  ssh_callbacks_init(&callbacks_);
  callbacks_.userdata = this;
  callbacks_.channel_data_function = [](ssh_session, ssh_channel, void*, std::uint32_t, int, void* self) {
    static_cast<WatchedChannel*>(self)->has_activity = true;
    return 0;  // consumes no byte, so libssh keeps the data
  };
  callbacks_.channel_eof_function = [](ssh_session, ssh_channel, void* self) {
    static_cast<WatchedChannel*>(self)->has_activity = true;
  };
  callbacks_.channel_close_function = callbacks_.channel_eof_function;
  callbacks_.channel_exit_signal_function = [](ssh_session, ssh_channel, const char* name, int, const char*,
                                               const char*, void* self) {
    static_cast<WatchedChannel*>(self)->exit_signal = number_of_signal(name);
  };
  MUSTER_CHECK(::ssh_set_channel_callbacks(handle, &callbacks_) == SSH_OK);
}

WatchedChannel::~WatchedChannel() {
  // libssh keeps a freed channel and its callbacks until the host has also closed it.
  ::ssh_remove_channel_callbacks(handle, &callbacks_);
  ::ssh_channel_free(handle);
}

namespace {

// Carries bytes between a session's channel and a socket until the agent ends or the socket closes.
class LibsshStream final : public PumpItem {
 public:
  LibsshStream(std::shared_ptr<LibsshSession> session, std::unique_ptr<WatchedChannel> channel, base::UniqueFd socket,
               std::string_view to_host, std::string_view from_host, std::function<void(const std::string&)> on_stderr)
      : session_(std::move(session)),
        channel_(std::move(channel)),
        socket_(std::move(socket)),
        errors_(std::move(on_stderr)) {
    to_host_.add(to_host);
    from_host_.add(from_host);
  }

  ~LibsshStream() override { errors_.finish(); }

  void prepare(std::span<pollfd, kFds> fds) override {
    // No useful data comes after the channel's EOF. libssh would leave such data in the socket, so do not wait for it.
    int host_events = is_host_silent_ ? 0 : POLLIN;
    if (session_->is_write_pending()) host_events |= POLLOUT;
    fds[0] = {is_host_silent_ ? -1 : session_->poll_fd(), static_cast<short>(host_events), 0};
    int events = 0;
    if (!has_socket_eof_ && to_host_.size() < kQueueLimit) events |= POLLIN;
    if (!from_host_.empty()) events |= POLLOUT;
    fds[1] = {is_socket_gone_ ? -1 : socket_.get(), static_cast<short>(events), 0};
  }

  std::optional<base::MonotonicTime> deadline() const override {
    // Data that libssh has buffered makes no fd readable, so ask to be served at once.
    const bool may_read = is_output_held_ && from_host_.size() < kQueueLimit;
    return may_read ? base::MonotonicTime{} : close_at_;
  }

  bool serve(std::span<const pollfd, kFds> fds) override {
    session_->rearm_quickack();
    if (fds[1].revents != 0) read_socket(fds[1].revents);
    do {
      channel_->has_activity = false;
      write_host();
      read_host();
    } while ((channel_->has_activity && !is_host_done_ && !is_output_held_) ||
             may_write(*session_, channel_->handle, !is_host_done_ && !to_host_.empty()));
    write_socket();
    if (is_host_done_ && (from_host_.empty() || is_socket_gone_)) return false;
    return !close_at_ || std::chrono::steady_clock::now() < *close_at_;
  }

 private:
  void read_socket(int revents) {
    char buffer[64 * 1024];
    while (!has_socket_eof_ && to_host_.size() < kQueueLimit) {
      const ssize_t count = ::recv(socket_.get(), buffer, sizeof buffer, MSG_DONTWAIT);
      if (count > 0) {
        to_host_.add({buffer, static_cast<std::size_t>(count)});
        continue;
      }
      if (count < 0 && (errno == EAGAIN || errno == EINTR)) break;
      has_socket_eof_ = true;
    }
    // The stream's owner has closed both directions, so further output has no reader. Give the agent a moment to end.
    if ((revents & (POLLHUP | POLLERR)) != 0 && has_socket_eof_) lose_socket();
  }

  void lose_socket() {
    if (is_socket_gone_) return;
    is_socket_gone_ = true;
    has_socket_eof_ = true;
    from_host_.clear();
    close_at_ = std::chrono::steady_clock::now() + kCloseGrace;
  }

  void read_host() {
    if (is_host_done_) return;
    // Read stderr first. If libssh has buffered no stderr, this call receives everything that has arrived, even if
    // stdout has no room.
    const ReadEnd errors = read_channel(channel_->handle, 1, [this](std::string_view bytes) {
      errors_.add(bytes);
      return true;
    });
    if (errors != ReadEnd::kMore) is_host_silent_ = true;
    is_output_held_ = true;
    if (from_host_.size() >= kQueueLimit) return;
    const ReadEnd output = read_channel(channel_->handle, 0, [this](std::string_view bytes) {
      if (!is_socket_gone_) from_host_.add(bytes);
      return from_host_.size() < kQueueLimit;
    });
    is_output_held_ = from_host_.size() >= kQueueLimit;
    if (output != ReadEnd::kMore) end_host();
  }

  void end_host() {
    is_host_done_ = true;
    is_host_silent_ = true;
    is_output_held_ = false;
  }

  void write_host() {
    if (is_host_done_) return;
    const int written = write_channel(*session_, channel_->handle, to_host_.front());
    if (written < 0) return;  // closed or lost; the next read reports it after the host's last bytes
    to_host_.remove(static_cast<std::size_t>(written));
    if (has_socket_eof_ && to_host_.empty() && !is_eof_sent_) {
      is_eof_sent_ = true;
      (void)::ssh_channel_send_eof(channel_->handle);  // the next read reports an error
    }
  }

  void write_socket() {
    while (!from_host_.empty() && !is_socket_gone_) {
      const std::string_view bytes = from_host_.front();
      const ssize_t count = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
      if (count < 0) return lose_socket();
      from_host_.remove(static_cast<std::size_t>(count));
    }
  }

  std::shared_ptr<LibsshSession> session_;
  std::unique_ptr<WatchedChannel> channel_;
  base::UniqueFd socket_;
  LineSplitter errors_;
  ByteQueue to_host_;
  ByteQueue from_host_;
  bool has_socket_eof_ = false;
  bool is_socket_gone_ = false;
  bool is_eof_sent_ = false;
  bool is_output_held_ = true;   // true if libssh may have buffered output
  bool is_host_silent_ = false;  // the channel's EOF has arrived
  bool is_host_done_ = false;    // the channel's EOF and all data before it were read
  std::optional<base::MonotonicTime> close_at_;
};

}  // namespace

LibsshProgram::LibsshProgram(std::shared_ptr<LibsshSession> session, Pump& pump)
    : session_(std::move(session)), pump_(pump) {}

LibsshProgram::~LibsshProgram() = default;

Failure LibsshProgram::start(Kind kind, const std::string& what, const Waiter& waiter) {
  const ssh_channel channel = ::ssh_channel_new(session_->get());
  if (channel == nullptr) return session_->connection_failure();
  channel_ = std::make_unique<WatchedChannel>(channel);
  int rc = SSH_ERROR;
  Failure failure = session_->drive(
      waiter, SSH_AGAIN, [channel] { return ::ssh_channel_open_session(channel); }, rc);
  if (failure.ok() && rc == SSH_OK) {
    failure = session_->drive(
        waiter, SSH_AGAIN,
        [&] {
          return kind == Kind::kCommand ? ::ssh_channel_request_exec(channel, what.c_str())
                                        : ::ssh_channel_request_subsystem(channel, what.c_str());
        },
        rc);
  }
  if (failure.kind == FailureKind::kTimeout) failure.detail = "logged in, but sshd did not start a program";
  if (!failure.ok() || rc == SSH_OK) return failure;
  failure = session_->connection_failure();
  if (::ssh_is_connected(session_->get()) != 0) failure.kind = FailureKind::kSshFailed;
  return failure;
}

// Moves bytes in both directions until it would block.
Failure LibsshProgram::move_bytes(std::string_view& input, std::string& errors) {
  do {
    channel_->has_activity = false;
    const int written = input.empty() ? 0 : write_channel(*session_, channel_->handle, input.substr(0, allowed()));
    if (written > 0) input.remove_prefix(static_cast<std::size_t>(written));
    const ReadEnd errors_end = read_channel(channel_->handle, 1, [&](std::string_view bytes) {
      errors.append(bytes);
      return true;
    });
    if (!is_output_open_ || pending_.size() >= kQueueLimit) return {};
    const ReadEnd end = read_channel(channel_->handle, 0, [&](std::string_view bytes) {
      pending_.append(bytes);
      return pending_.size() < kQueueLimit;
    });
    if (end == ReadEnd::kEof) {
      is_output_open_ = false;
    } else if (end == ReadEnd::kLost || errors_end == ReadEnd::kLost || written < 0) {
      return session_->connection_failure();
    }
  } while (channel_->has_activity || may_write(*session_, channel_->handle, !input.empty() && allowed() > 0));
  return {};
}

std::size_t LibsshProgram::allowed() {
  return window_.allowed(::ssh_channel_window_size(channel_->handle));
}

void LibsshProgram::take_line(std::string& output) {
  const std::size_t line_end = pending_.find('\n');
  const std::size_t take = line_end == std::string::npos ? pending_.size() : line_end + 1;
  output.append(pending_, 0, take);
  pending_.erase(0, take);
}

Failure LibsshProgram::exchange(std::string_view& input, std::string& output, std::string& errors,
                                const Waiter& waiter) {
  for (;;) {
    const std::size_t before = input.size() + errors.size();
    if (pending_.empty()) {
      if (Failure failure = move_bytes(input, errors); !failure.ok()) return failure;
    }
    if (!pending_.empty()) {
      take_line(output);
      return {};
    }
    if (input.size() + errors.size() != before) return {};
    if (!is_output_open_) {
      input = {};
      exit_status_ = ::ssh_channel_get_exit_status(channel_->handle);
      if (exit_status_ < 0 && channel_->exit_signal != 0) exit_status_ = 128 + channel_->exit_signal;
      has_ended_ = exit_status_ >= 0 || ::ssh_channel_is_closed(channel_->handle) != 0;
      if (has_ended_) return {};
    }
    if (::ssh_is_connected(session_->get()) == 0) return session_->connection_failure();
    const pollfd fd{session_->poll_fd(), static_cast<short>(session_->is_write_pending() ? POLLIN | POLLOUT : POLLIN),
                    0};
    const bool is_limited = !input.empty() && allowed() == 0 && ::ssh_channel_window_size(channel_->handle) > 0;
    const auto until = is_limited ? std::chrono::steady_clock::now() + kUnreadPatience : base::MonotonicTime::max();
    if (Failure failure = wait_failure(waiter.wait({&fd, 1}, until)); !failure.ok()) return failure;
    if (std::chrono::steady_clock::now() >= until) window_.widen();
    session_->rearm_quickack();
  }
}

Failure LibsshProgram::close_input(const Waiter& waiter) {
  int rc = SSH_ERROR;
  Failure failure = session_->drive(
      waiter, SSH_AGAIN, [this] { return ::ssh_channel_send_eof(channel_->handle); }, rc);
  if (!failure.ok()) return failure;
  // A failure on a live connection means that the host has closed the channel already. exchange() reports how the
  // program ended.
  return rc == SSH_OK || ::ssh_is_connected(session_->get()) != 0 ? Failure{} : session_->connection_failure();
}

Failure LibsshProgram::release(std::string_view input, std::function<void(const std::string& line)> on_stderr,
                               const Waiter& /*waiter*/, base::UniqueFd& stream) {
  auto pair = base::make_socketpair(SOCK_STREAM);
  if (!pair.ok()) return {.kind = FailureKind::kSshFailed, .detail = pair.status().message()};
  const int written = write_channel(*session_, channel_->handle, input);
  if (written < 0) return session_->connection_failure();
  input.remove_prefix(static_cast<std::size_t>(written));
  auto item = std::make_unique<LibsshStream>(std::move(session_), std::move(channel_), std::move(pair->second), input,
                                             pending_, std::move(on_stderr));
  const base::Status added = pump_.add(std::move(item));
  if (!added.ok()) return {.kind = FailureKind::kSshFailed, .detail = added.message()};
  stream = std::move(pair->first);
  return {};
}

}  // namespace muster::launcherd::ssh
