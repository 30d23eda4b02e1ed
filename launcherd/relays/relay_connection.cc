// RelayConnection: Shared is what channels and connection share; Channel is one stream's end.
// Read serve() and handle() first, then Channel.
#include "launcherd/relays/relay_connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/free_if_empty.h"
#include "base/send_some.h"

namespace muster::launcherd::inline relays {
namespace {

using proto::RelayKind;

constexpr std::size_t kKept = 256;              // an empty buffer that is larger is freed; each agent has one
constexpr std::size_t kReadBefore = 16 * 1024;  // bytes that were read stay in a buffer up to this size

}  // namespace

struct RelayConnection::Shared {
  struct Stream {
    std::string incoming;                        // what the channel has not read
    std::size_t read = 0;                        // bytes of `incoming` that the channel has read
    std::uint32_t to_grant = 0;                  // bytes that were read and not granted again
    std::uint32_t credit = proto::kRelayWindow;  // bytes that we may send
    bool has_peer_closed = false;
    bool is_waiting = false;  // the channel wants to write and could not
  };

  void send(const proto::RelayFrame& frame) { proto::append_relay_frame(frame, outgoing); }
  bool is_full() const { return outgoing.size() >= kMostOutgoing; }

  std::unordered_map<std::uint32_t, Stream> streams;  // until the channel is destroyed
  std::string outgoing;
  bool is_broken = false;
};

class RelayConnection::Channel final : public base::ByteChannel {
 public:
  Channel(std::shared_ptr<Shared> shared, std::uint32_t stream) : shared_(std::move(shared)), number_(stream) {}
  ~Channel() override {
    shared_->streams.erase(number_);
    if (!shared_->is_broken) shared_->send({.kind = RelayKind::kClose, .stream = number_});
  }

  long read(char* data, std::size_t size) override {
    Shared::Stream& stream = shared_->streams.at(number_);
    const std::size_t left = stream.incoming.size() - stream.read;
    if (left == 0) return stream.has_peer_closed ? 0 : shared_->is_broken ? kBroken : kLater;
    const std::size_t moved = std::min(size, left);
    stream.incoming.copy(data, moved, stream.read);
    stream.read += moved;
    if (stream.read == stream.incoming.size() || stream.read >= kReadBefore) {
      stream.incoming.erase(0, std::exchange(stream.read, 0));
      base::free_if_empty(stream.incoming, kKept);
    }
    grant(stream, static_cast<std::uint32_t>(moved));
    return static_cast<long>(moved);
  }

  long write(const char* data, std::size_t size) override {
    Shared::Stream& stream = shared_->streams.at(number_);
    if (shared_->is_broken || stream.has_peer_closed) return kBroken;
    const std::size_t moved = std::min({size, std::size_t{stream.credit}, proto::kMaxRelayPayload});
    if (moved == 0 || shared_->is_full()) {
      stream.is_waiting = true;
      return kLater;
    }
    stream.credit -= static_cast<std::uint32_t>(moved);
    shared_->send({.kind = RelayKind::kData, .stream = number_, .payload = {data, moved}});
    return static_cast<long>(moved);
  }

 private:
  // Grants in pieces, so that few frames are needed.
  void grant(Shared::Stream& stream, std::uint32_t bytes) {
    stream.to_grant += bytes;
    if (stream.to_grant < proto::kRelayWindow / 4 || stream.has_peer_closed || shared_->is_broken) return;
    shared_->send({.kind = RelayKind::kCredit, .stream = number_, .credit = std::exchange(stream.to_grant, 0)});
  }

  const std::shared_ptr<Shared> shared_;
  const std::uint32_t number_;
};

RelayConnection::RelayConnection(base::UniqueFd fd, Events events)
    : fd_(std::move(fd)), events_(std::move(events)), shared_(std::make_shared<Shared>()) {}

RelayConnection::~RelayConnection() {
  shared_->is_broken = true;
}

base::Status RelayConnection::serve() {
  std::array<char, std::size_t{32} * 1024> buffer;
  std::size_t total = 0;
  has_more_ = false;
  base::Status status;
  while (status.ok()) {
    const ssize_t n = ::recv(fd_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (n < 0) status = base::errno_error(errno, "the connection of a relay");
    if (n == 0) status = base::unavailable("the relay closed its connection");
    if (n <= 0) break;
    partial_.append(buffer.data(), static_cast<std::size_t>(n));
    std::string_view rest = partial_;
    while (status.ok()) {
      const auto parse = proto::parse_relay_frame(rest);
      status = parse.status();
      if (!status.ok() || !parse->is_complete) break;
      status = handle(parse->frame);
      rest.remove_prefix(parse->size);
    }
    partial_.erase(0, partial_.size() - rest.size());
    base::free_if_empty(partial_, kKept);
    total += static_cast<std::size_t>(n);
    has_more_ = total >= kRound;
    if (has_more_) break;
  }
  // Its streams are bounded by their windows, and this bounds the frames that open and close streams.
  if (status.ok() && shared_->outgoing.size() > kMostUnread) {
    status = {base::Code::kResourceExhausted, "relay: it does not read what the launcher sends"};
  }
  if (!status.ok()) {
    shared_->is_broken = true;
    for (const auto& [stream, state] : shared_->streams) touch(stream);
  }
  tell_ready();
  return status;
}

base::Status RelayConnection::handle(const proto::RelayFrame& frame) {
  if (frame.kind == RelayKind::kOpen) return open(frame.stream);
  if (frame.kind == RelayKind::kProven) return base::invalid_argument("relay: a frame that only the launcher sends");
  const auto found = shared_->streams.find(frame.stream);
  if (found == shared_->streams.end()) return base::ok_status();  // closed by us; the relay does not know yet
  Shared::Stream& stream = found->second;
  switch (frame.kind) {
    case RelayKind::kData:
      stream.incoming.append(frame.payload);
      if (stream.incoming.size() - stream.read + stream.to_grant > proto::kRelayWindow || stream.has_peer_closed) {
        return base::invalid_argument("relay: stream {} has more bytes than were granted", frame.stream);
      }
      break;
    case RelayKind::kCredit:
      if (frame.credit > proto::kRelayWindow - stream.credit) {
        return base::invalid_argument("relay: stream {} grants more bytes than were sent", frame.stream);
      }
      stream.credit += frame.credit;
      if (!std::exchange(stream.is_waiting, false)) return base::ok_status();
      break;
    default:
      stream.has_peer_closed = true;
  }
  touch(frame.stream);
  return base::ok_status();
}

base::Status RelayConnection::open(std::uint32_t stream) {
  if (stream <= last_stream_) return base::invalid_argument("relay: stream {} is opened twice", stream);
  last_stream_ = stream;
  shared_->streams[stream];
  events_.on_open(stream, std::make_unique<Channel>(shared_, stream));
  return base::ok_status();
}

void RelayConnection::touch(std::uint32_t stream) {
  if (touched_.empty() || touched_.back() != stream) touched_.push_back(stream);
}

void RelayConnection::tell_ready() {
  std::vector<std::uint32_t> touched = std::exchange(touched_, {});
  std::ranges::sort(touched);
  touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
  for (const std::uint32_t stream : touched) {
    if (shared_->streams.contains(stream)) events_.on_ready(stream);
  }
}

base::Status RelayConnection::write_pending() {
  std::string& outgoing = shared_->outgoing;
  const bool was_full = shared_->is_full();
  MUSTER_ASSIGN_OR_RETURN(const base::SentBytes sent,
                          base::send_some(fd_.get(), outgoing, "the connection of a relay"));
  wants_write_ = sent.is_blocked;
  base::free_if_empty(outgoing, kKept);
  if (!was_full || shared_->is_full()) return base::ok_status();
  for (auto& [stream, state] : shared_->streams) {
    if (std::exchange(state.is_waiting, false)) touch(stream);
  }
  tell_ready();
  wants_write_ = wants_write_ || has_pending();  // what the channels have just written
  return base::ok_status();
}

bool RelayConnection::has_pending() const {
  return !shared_->outgoing.empty();
}

void RelayConnection::proven(std::uint32_t stream) {
  shared_->send({.kind = RelayKind::kProven, .stream = stream});
}

std::size_t RelayConnection::streams() const {
  return shared_->streams.size();
}

}  // namespace muster::launcherd::relays
