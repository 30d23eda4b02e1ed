#include "bench/simulated_relay.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/net.h"
#include "base/unique_fd.h"
#include "proto/relay_frame.h"

namespace muster::bench {
namespace {

using proto::RelayKind;

}  // namespace

struct SimulatedRelay::State : std::enable_shared_from_this<State> {
  struct Stream {
    std::string incoming;
    std::uint32_t credit = proto::kRelayWindow;
    std::uint32_t to_grant = 0;
    bool has_ended = false;
    base::Loop::Task on_ready;
  };
  class Channel;

  State(base::Loop& loop_in, std::uint16_t port_in) : loop(loop_in), port(port_in) {}

  bool connect();
  void readable();
  void handle(const proto::RelayFrame& frame, std::vector<std::uint32_t>& touched);
  void send(const proto::RelayFrame& frame);
  void flush();
  void lost();

  base::Loop& loop;
  const std::uint16_t port;
  base::UniqueFd fd;
  base::Timer reads;
  base::Timer writes;
  std::map<std::uint32_t, Stream> streams;
  std::uint32_t last_stream = 0;
  std::uint64_t connection = 0;  // number of this connection; channels of an earlier one are broken
  std::string partial;
  std::string outgoing;
  bool is_flush_due = false;
};

class SimulatedRelay::State::Channel final : public base::ByteChannel {
 public:
  Channel(std::shared_ptr<State> relay, std::uint32_t number)
      : relay_(std::move(relay)), connection_(relay_->connection), number_(number) {}
  ~Channel() override {
    if (connection_ != relay_->connection || relay_->streams.erase(number_) == 0) return;
    relay_->send({.kind = RelayKind::kClose, .stream = number_});
  }

  long read(char* data, std::size_t size) override {
    Stream* const stream = find();
    if (stream == nullptr) return kBroken;
    if (stream->incoming.empty()) return stream->has_ended ? 0 : kLater;
    const std::size_t moved = std::min(size, stream->incoming.size());
    stream->incoming.copy(data, moved);
    stream->incoming.erase(0, moved);
    stream->to_grant += static_cast<std::uint32_t>(moved);
    if (stream->to_grant >= proto::kRelayWindow / 4) {
      relay_->send({.kind = RelayKind::kCredit, .stream = number_, .credit = std::exchange(stream->to_grant, 0)});
    }
    return static_cast<long>(moved);
  }

  long write(const char* data, std::size_t size) override {
    Stream* const stream = find();
    if (stream == nullptr || stream->has_ended) return kBroken;
    const std::size_t moved = std::min({size, std::size_t{stream->credit}, proto::kMaxRelayPayload});
    if (moved == 0) return kLater;
    stream->credit -= static_cast<std::uint32_t>(moved);
    relay_->send({.kind = RelayKind::kData, .stream = number_, .payload = {data, moved}});
    return static_cast<long>(moved);
  }

 private:
  Stream* find() {
    if (connection_ != relay_->connection) return nullptr;
    const auto found = relay_->streams.find(number_);
    return found == relay_->streams.end() ? nullptr : &found->second;
  }

  const std::shared_ptr<State> relay_;
  const std::uint64_t connection_;
  const std::uint32_t number_;
};

bool SimulatedRelay::State::connect() {
  if (fd.valid()) return true;
  const base::SockAddr to = base::make_sockaddr(base::IpAddress::parse("127.0.0.1").value(), port);
  fd.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid() || ::connect(fd.get(), to.get(), to.size) != 0) {
    fd.reset();
    return false;
  }
  const int on = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  outgoing = proto::kRelayHello;
  last_stream = 0;
  reads = loop.on_readable(fd.get(), [this] { readable(); });
  return true;
}

void SimulatedRelay::State::readable() {
  std::array<char, std::size_t{256} * 1024> buffer;
  const ssize_t n = ::recv(fd.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) return lost();
  partial.append(buffer.data(), static_cast<std::size_t>(n));
  std::string_view rest = partial;
  std::vector<std::uint32_t> touched;
  while (true) {
    const auto parse = proto::parse_relay_frame(rest);
    if (!parse.ok()) return lost();
    if (!parse->is_complete) break;
    handle(parse->frame, touched);
    rest.remove_prefix(parse->size);
  }
  partial.erase(0, partial.size() - rest.size());
  const auto keep = shared_from_this();
  for (const std::uint32_t number : touched) {
    const auto stream = streams.find(number);
    if (stream != streams.end()) base::Loop::Task(stream->second.on_ready)();
  }
}

void SimulatedRelay::State::handle(const proto::RelayFrame& frame, std::vector<std::uint32_t>& touched) {
  const auto found = streams.find(frame.stream);
  if (found == streams.end() || frame.kind == RelayKind::kProven) return;
  if (frame.kind == RelayKind::kData) found->second.incoming.append(frame.payload);
  if (frame.kind == RelayKind::kCredit) found->second.credit += frame.credit;
  if (frame.kind == RelayKind::kClose) found->second.has_ended = true;
  if (touched.empty() || touched.back() != frame.stream) touched.push_back(frame.stream);
}

// Frames of one turn of the loop travel together.
void SimulatedRelay::State::send(const proto::RelayFrame& frame) {
  proto::append_relay_frame(frame, outgoing);
  if (std::exchange(is_flush_due, true)) return;
  loop.post([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->flush();
  });
}

void SimulatedRelay::State::flush() {
  is_flush_due = false;
  if (!fd.valid()) return;
  const ssize_t n = ::send(fd.get(), outgoing.data(), outgoing.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (n > 0) outgoing.erase(0, static_cast<std::size_t>(n));
  if (n < 0 && errno != EAGAIN && errno != EINTR) return;  // the next read finds out
  if (outgoing.empty()) return writes.cancel();
  if (!writes.armed()) writes = loop.on_writable(fd.get(), [this] { flush(); });
}

void SimulatedRelay::State::lost() {
  const auto keep = shared_from_this();
  reads.cancel();
  writes.cancel();
  fd.reset();
  partial.clear();
  outgoing.clear();
  ++connection;
  for (auto& [number, stream] : std::exchange(streams, {})) stream.on_ready();
}

SimulatedRelay::SimulatedRelay(base::Loop& loop, std::uint16_t launcherd_port)
    : state_(std::make_shared<State>(loop, launcherd_port)) {}

SimulatedRelay::~SimulatedRelay() {
  state_->reads.cancel();
  state_->writes.cancel();
}

std::unique_ptr<base::ByteChannel> SimulatedRelay::open(base::Loop::Task on_ready) {
  if (!state_->connect()) return nullptr;
  const std::uint32_t number = ++state_->last_stream;
  state_->streams[number].on_ready = std::move(on_ready);
  state_->send({.kind = RelayKind::kOpen, .stream = number});
  return std::make_unique<State::Channel>(state_, number);
}

}  // namespace muster::bench
