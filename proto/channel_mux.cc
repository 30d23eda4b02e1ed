// All of Mux: the frames of the channel and the thread that carries them.
// Read run() and turn() first, then handle_frame(); the read_ and write_ functions each serve one descriptor.
#include "proto/channel_mux.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <thread>

namespace muster::proto {

void append_mux_frame(const MuxFrame& frame, std::string* to) {
  const std::uint32_t length =
      frame.kind == MuxKind::kCredit ? frame.credit : static_cast<std::uint32_t>(frame.payload.size());
  for (int shift = 0; shift < 32; shift += 8) to->push_back(static_cast<char>(length >> shift));
  to->push_back(static_cast<char>(frame.kind));
  to->push_back(static_cast<char>(frame.stream));
  to->append(2, '\0');
  if (frame.kind == MuxKind::kData) to->append(frame.payload);
}

base::Result<MuxParse> parse_mux_frame(std::string_view bytes, std::size_t streams) {
  if (bytes.size() < kMuxHeaderSize) return MuxParse{false, {}, kMuxHeaderSize};
  std::uint32_t length = 0;
  for (unsigned i = 0; i < 4; ++i)
    length |= static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  MuxFrame frame;
  frame.kind = static_cast<MuxKind>(bytes[4]);
  frame.stream = static_cast<std::uint8_t>(bytes[5]);
  bool is_valid = frame.stream < streams && bytes[6] == 0 && bytes[7] == 0;
  std::size_t payload = 0;
  switch (frame.kind) {
    case MuxKind::kData:
      is_valid = is_valid && length > 0 && length <= kMaxMuxPayload;
      payload = length;
      break;
    case MuxKind::kCredit:
      is_valid = is_valid && length > 0 && length <= kMuxWindow;
      frame.credit = length;
      break;
    case MuxKind::kEof:
    case MuxKind::kReset:
      is_valid = is_valid && length == 0;
      break;
    default:
      is_valid = false;
  }
  if (!is_valid) {
    return base::invalid_argument("agent channel: malformed frame (kind {}, stream {}, {} bytes)",
                                  static_cast<unsigned>(bytes[4] & 0xff), frame.stream, length);
  }
  const std::size_t size = kMuxHeaderSize + payload;
  if (bytes.size() < size) return MuxParse{false, {}, size};
  frame.payload = bytes.substr(kMuxHeaderSize, payload);
  return MuxParse{true, frame, size};
}

namespace {

// Limit of the bytes that wait for the channel. Enough to keep the channel busy, but control never waits long behind
// output.
constexpr std::size_t kOutgoingLimit = 2 * (kMaxMuxPayload + kMuxHeaderSize);
constexpr std::size_t kReadChunk = 64 * 1024;

struct Stream {
  base::UniqueFd local;
  std::uint32_t credit = kMuxWindow;  // bytes that we may still send
  std::uint32_t consumed = 0;         // bytes that the local end has read and for which we have not granted new credit
  std::string incoming;               // received bytes that the local end has not read; at most kMuxWindow
  std::size_t incoming_at = 0;
  bool is_read_done = false;   // the local end has no more data, and the peer knows
  bool is_write_done = false;  // the peer sends no more, or we have sent kReset
  bool is_reset_sent = false;
  bool is_shut = false;  // the local reader sees EOF

  std::size_t waiting() const { return incoming.size() - incoming_at; }
};

}  // namespace

class Mux::Worker {
 public:
  Worker(base::UniqueFd in, base::UniqueFd out, std::vector<base::UniqueFd> locals,
         std::function<void(base::Status)> on_closed)
      : in_(std::move(in)), out_(std::move(out)), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    MUSTER_CHECK(!locals.empty() && locals.size() <= kMaxMuxStreams && wake_.valid());
    for (base::UniqueFd& local : locals) {
      streams_.emplace_back();
      streams_.back().local = std::move(local);
    }
    thread_ = std::thread([this, on_closed = std::move(on_closed)] { run(on_closed); });
  }

  ~Worker() { stop(); }

  void stop() {
    if (!thread_.joinable()) return;
    eventfd_write(wake_.get(), 1);
    thread_.join();
  }

 private:
  void run(const std::function<void(base::Status)>& on_closed);
  base::Status set_up();
  base::Result<bool> turn();  // false after stop() or a clean end of the channel
  void add_poll_entries();
  base::Status read_channel();
  base::Status handle_frame(const MuxFrame& frame);
  void read_locals();
  void read_local(std::uint8_t index);
  void write_local(std::uint8_t index);
  void refuse(std::uint8_t index);
  base::Status write_channel();
  bool has_room() const { return outgoing_.size() - outgoing_at_ < kOutgoingLimit; }
  static bool wants_read(const Stream& stream) {
    return stream.local.valid() && !stream.is_read_done && stream.credit > 0;
  }

  base::UniqueFd in_;
  base::UniqueFd out_;
  base::UniqueFd wake_;
  std::vector<Stream> streams_;
  std::string received_;
  std::string outgoing_;
  std::size_t outgoing_at_ = 0;
  std::vector<pollfd> polled_;
  std::thread thread_;
};

void Mux::Worker::run(const std::function<void(base::Status)>& on_closed) {
  sigset_t pipe_signal;
  sigemptyset(&pipe_signal);
  sigaddset(&pipe_signal, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe_signal, nullptr);
  base::Status status = set_up();
  bool is_stopped = false;
  while (status.ok()) {
    base::Result<bool> more = turn();
    if (!more.ok()) {
      status = more.status();
    } else if (!*more) {
      eventfd_t count = 0;
      is_stopped = eventfd_read(wake_.get(), &count) == 0;
      break;
    }
  }
  for (Stream& stream : streams_) stream.local.reset();
  in_.reset();
  out_.reset();
  if (!is_stopped && on_closed) on_closed(status);
}

base::Status Mux::Worker::set_up() {
  MUSTER_RETURN_IF_ERROR(base::set_nonblocking(in_.get(), true));
  MUSTER_RETURN_IF_ERROR(base::set_nonblocking(out_.get(), true));
  for (Stream& stream : streams_) MUSTER_RETURN_IF_ERROR(base::set_nonblocking(stream.local.get(), true));
  return base::ok_status();
}

// Fixed indices: 0 is the wake descriptor, 1 is in, 2 is out, 3 + i is local i.
void Mux::Worker::add_poll_entries() {
  polled_.clear();
  polled_.push_back({wake_.get(), POLLIN, 0});
  polled_.push_back({in_.get(), POLLIN, 0});
  polled_.push_back({outgoing_.size() > outgoing_at_ ? out_.get() : -1, POLLOUT, 0});
  for (const Stream& stream : streams_) {
    int events = 0;
    if (wants_read(stream) && has_room()) events |= POLLIN;
    if (stream.waiting() > 0) events |= POLLOUT;
    polled_.push_back({events != 0 ? stream.local.get() : -1, static_cast<short>(events), 0});
  }
}

base::Result<bool> Mux::Worker::turn() {
  add_poll_entries();
  if (poll(polled_.data(), polled_.size(), -1) < 0) {
    if (errno == EINTR) return true;
    return base::errno_error(errno, "agent channel: poll");
  }
  if (polled_[0].revents != 0) return false;
  if (polled_[1].revents != 0) {
    const base::Status status = read_channel();
    if (status.code() == base::Code::kOutOfRange) return false;  // the channel's end
    MUSTER_RETURN_IF_ERROR(status);
  }
  for (std::uint8_t i = 0; i < streams_.size(); ++i) write_local(i);
  read_locals();
  MUSTER_RETURN_IF_ERROR(write_channel());
  return true;
}

base::Status Mux::Worker::read_channel() {
  const std::size_t had = received_.size();
  received_.resize(had + kReadChunk);
  const ssize_t got = read(in_.get(), received_.data() + had, kReadChunk);
  const int saved_errno = errno;
  received_.resize(had + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  if (got < 0) {
    if (saved_errno == EAGAIN || saved_errno == EINTR) return base::ok_status();
    return base::errno_error(saved_errno, "agent channel: read");
  }
  if (got == 0) {
    if (received_.empty()) return {base::Code::kOutOfRange, "end"};
    return {base::Code::kUnavailable, "agent channel: ended in the middle of a frame"};
  }
  std::string_view rest = received_;
  for (;;) {
    MUSTER_ASSIGN_OR_RETURN(const MuxParse parse, parse_mux_frame(rest, streams_.size()));
    if (!parse.is_complete) break;
    MUSTER_RETURN_IF_ERROR(handle_frame(parse.frame));
    rest.remove_prefix(parse.size);
  }
  received_.erase(0, received_.size() - rest.size());
  return base::ok_status();
}

base::Status Mux::Worker::handle_frame(const MuxFrame& frame) {
  Stream& stream = streams_[frame.stream];
  switch (frame.kind) {
    case MuxKind::kData:
      if (stream.is_write_done && !stream.is_reset_sent) {
        return base::invalid_argument("agent channel: data after the end of stream {}", frame.stream);
      }
      if (stream.is_reset_sent) return base::ok_status();  // the peer sent it before our kReset arrived
      if (stream.waiting() + stream.consumed + frame.payload.size() > kMuxWindow) {
        return base::invalid_argument("agent channel: more data than credit on stream {}", frame.stream);
      }
      stream.incoming.append(frame.payload);
      break;
    case MuxKind::kCredit:
      if (frame.credit > kMuxWindow - stream.credit) {
        return base::invalid_argument("agent channel: more credit than one window on stream {}", frame.stream);
      }
      stream.credit += frame.credit;
      break;
    case MuxKind::kEof:
      stream.is_write_done = true;
      break;
    case MuxKind::kReset:
      stream.is_read_done = true;
      if (stream.local.valid()) shutdown(stream.local.get(), SHUT_RD);
      break;
  }
  return base::ok_status();
}

void Mux::Worker::refuse(std::uint8_t index) {
  Stream& stream = streams_[index];
  stream.incoming.clear();
  stream.incoming_at = 0;
  if (!stream.is_write_done) append_mux_frame({MuxKind::kReset, index, 0, {}}, &outgoing_);
  stream.is_reset_sent = true;
  stream.is_write_done = true;
}

void Mux::Worker::write_local(std::uint8_t index) {
  Stream& stream = streams_[index];
  while (stream.waiting() > 0) {
    const ssize_t put =
        send(stream.local.get(), stream.incoming.data() + stream.incoming_at, stream.waiting(), MSG_NOSIGNAL);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && errno == EAGAIN) break;
    if (put < 0) return refuse(index);
    stream.incoming_at += static_cast<std::size_t>(put);
    stream.consumed += static_cast<std::uint32_t>(put);
  }
  if (stream.waiting() == 0) {
    stream.incoming.clear();
    stream.incoming_at = 0;
    if (stream.is_write_done && !stream.is_reset_sent && !stream.is_shut) {
      shutdown(stream.local.get(), SHUT_WR);
      stream.is_shut = true;
    }
  } else if (stream.incoming_at > kMuxWindow / 2) {
    stream.incoming.erase(0, stream.incoming_at);
    stream.incoming_at = 0;
  }
  if (!stream.is_write_done && stream.consumed >= kMuxWindow / 4) {
    append_mux_frame({MuxKind::kCredit, index, stream.consumed, {}}, &outgoing_);
    stream.consumed = 0;
  }
}

// Serves stream 0 first if it has data. The other streams share the remaining space, one chunk each.
void Mux::Worker::read_locals() {
  for (std::uint8_t i = 0; i < streams_.size() && has_room(); ++i) {
    if ((polled_[3U + i].revents & (POLLIN | POLLHUP | POLLERR)) != 0 && wants_read(streams_[i])) read_local(i);
  }
}

void Mux::Worker::read_local(std::uint8_t index) {
  Stream& stream = streams_[index];
  std::array<char, kMaxMuxPayload> chunk;
  const ssize_t got = read(stream.local.get(), chunk.data(), std::min<std::size_t>(chunk.size(), stream.credit));
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {  // treat a reset local end as EOF
    stream.is_read_done = true;
    append_mux_frame({MuxKind::kEof, index, 0, {}}, &outgoing_);
    return;
  }
  stream.credit -= static_cast<std::uint32_t>(got);
  append_mux_frame({MuxKind::kData, index, 0, {chunk.data(), static_cast<std::size_t>(got)}}, &outgoing_);
}

base::Status Mux::Worker::write_channel() {
  while (outgoing_at_ < outgoing_.size()) {
    const ssize_t put = ::write(out_.get(), outgoing_.data() + outgoing_at_, outgoing_.size() - outgoing_at_);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && errno == EAGAIN) return base::ok_status();
    if (put < 0) return base::errno_error(errno, "agent channel: write");
    outgoing_at_ += static_cast<std::size_t>(put);
  }
  outgoing_.clear();
  outgoing_at_ = 0;
  return base::ok_status();
}

Mux::Mux(base::UniqueFd in, base::UniqueFd out, std::vector<base::UniqueFd> locals,
         std::function<void(base::Status)> on_closed)
    : worker_(std::make_unique<Worker>(std::move(in), std::move(out), std::move(locals), std::move(on_closed))) {}

Mux::~Mux() = default;

void Mux::stop() {
  worker_->stop();
}

}  // namespace muster::proto
