// A cache's connection to the store: connecting, requests, and resending after a loss.
// Read connect() and connected() first, then ask() and send(), then on_frame() and lost().
#include "rendezvous/horovod_tcp_upstream.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <functional>
#include <utility>

#include "rendezvous/horovod_pack.h"
#include "rendezvous/host_meetings.h"
#include "rendezvous/stream_uplink.h"

namespace muster::rendezvous {
namespace {

namespace asio = boost::asio;
using Socket = asio::basic_stream_socket<asio::generic::stream_protocol, asio::io_context::executor_type>;
using Failure = boost::system::error_code;

}  // namespace

// One attempt: connects, then runs the owner check. Both together must end within connect_limit. `done` is called once,
// from the loop. Destroying the object ends the attempt.
class HorovodTcpUpstream::Connecting : public std::enable_shared_from_this<Connecting> {
 public:
  using Done = std::function<void(base::Result<base::UniqueFd>)>;

  Connecting(base::Loop& loop, std::string where, const OwnerCheck& check, Done done)
      : loop_(loop), where_(std::move(where)), check_(check), done_(std::move(done)), socket_(loop.context()) {}

  void begin(const base::SockAddr& to, base::Duration limit) {
    deadline_ = loop_.after(limit, [this] { end(failed(base::Code::kDeadlineExceeded, "no answer")); });
    base::UniqueFd fd(::socket(to.get()->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const asio::generic::stream_protocol protocol(to.get()->sa_family, IPPROTO_TCP);
    Failure bad;
    if (fd.valid()) socket_.assign(protocol, fd.get(), bad);
    if (fd.valid() && !bad) fd.release();  // otherwise async_connect() fails and reports it
    const asio::generic::stream_protocol::endpoint endpoint(to.get(), to.size, IPPROTO_TCP);
    socket_.async_connect(endpoint, [weak = weak_from_this()](Failure refused) {
      const auto self = weak.lock();
      if (self == nullptr || self->done_ == nullptr) return;
      if (refused) return self->end(self->failed(base::Code::kUnavailable, refused.message()));
      self->check();
    });
  }

 private:
  base::Status failed(base::Code code, std::string_view why) const {
    return base::error(code, "connect to the Horovod store at {}: {}", where_, why);
  }

  void check() {
    const auto ends = connection_ends(socket_.native_handle());
    if (!ends.ok()) return end(ends.status());
    check_(*ends, [weak = weak_from_this()](bool allowed) {
      const auto self = weak.lock();
      if (self == nullptr || self->done_ == nullptr) return;
      if (!allowed) {
        return self->end(
            self->failed(base::Code::kPermissionDenied, "the process that listens there does not belong to this job"));
      }
      Failure bad;
      base::UniqueFd fd(self->socket_.release(bad));
      if (bad) return self->end(self->failed(base::Code::kInternal, bad.message()));
      self->end(std::move(fd));
    });
  }

  void end(base::Result<base::UniqueFd> result) {
    deadline_.cancel();
    if (const Done done = std::exchange(done_, nullptr)) done(std::move(result));
  }

  base::Loop& loop_;
  const std::string where_;
  const OwnerCheck& check_;
  Done done_;
  Socket socket_;
  base::Timer deadline_;
};

HorovodTcpUpstream::HorovodTcpUpstream(base::Loop& loop, base::IpAddress address, std::uint16_t port, OwnerCheck check,
                                       HorovodTcpUpstreamLimits limits)
    : loop_(loop),
      address_(std::move(address)),
      port_(port),
      check_(std::move(check)),
      limits_(limits),
      pause_(limits.first_pause) {}

HorovodTcpUpstream::~HorovodTcpUpstream() = default;

void HorovodTcpUpstream::set_listener(Listener* listener) {
  listener_ = listener;
  if (listener_ != nullptr) return;
  for (auto& [id, request] : unanswered_) request.done = nullptr;
}

void HorovodTcpUpstream::connect_first() {
  if (link_ == nullptr && connecting_ == nullptr && !retry_.armed()) connect();
}

void HorovodTcpUpstream::connect() {
  connecting_ = std::make_shared<Connecting>(loop_, base::format_endpoint(address_, port_), check_,
                                             [this](base::Result<base::UniqueFd> fd) { connected(std::move(fd)); });
  connecting_->begin(base::make_sockaddr(address_, port_), limits_.connect_limit);
}

void HorovodTcpUpstream::connected(base::Result<base::UniqueFd> fd) {
  connecting_.reset();
  if (!fd.ok()) return lost(fd.status());
  pause_ = limits_.first_pause;
  last_failure_ = base::ok_status();
  HorovodLink::Events events;
  events.on_frame = [this](const HorovodFrame& frame) { return on_frame(frame); };
  events.on_closed = [this](const base::Status& why) { lost(why); };
  link_ =
      std::make_unique<HorovodLink>(loop_, std::move(*fd), limits_.store, limits_.max_queued_bytes, std::move(events));
  for (const std::string& scope : follows_) link_->send({.kind = HorovodFrameKind::kFollow, .scope = scope}, nullptr);
  for (const auto& [id, request] : unanswered_) send(id, request);
  if (meetings_ != nullptr) meetings_->parent_connected();
  if (streams_ != nullptr) streams_->connected();
}

void HorovodTcpUpstream::lost(const base::Status& why) {
  last_failure_ = why;
  link_.reset();
  retry_ = loop_.after(pause_, [this] { connect(); });
  pause_ = std::min(pause_ * 2, limits_.longest_pause);
  if (listener_ != nullptr) listener_->on_lost();
  if (streams_ != nullptr) streams_->lost();
}

void HorovodTcpUpstream::put(std::string_view scope, std::string_view key, HorovodValue value, Done done) {
  ask({HorovodFrameKind::kPut, std::string(scope), std::string(key), std::move(value), std::move(done)});
}

void HorovodTcpUpstream::finish(std::string_view scope, std::string_view key, Done done) {
  ask({HorovodFrameKind::kFinish, std::string(scope), std::string(key), nullptr, std::move(done)});
}

void HorovodTcpUpstream::follow(std::string_view scope) {
  if (!follows_.emplace(scope).second) return;
  connect_first();
  if (link_ != nullptr) link_->send({.kind = HorovodFrameKind::kFollow, .scope = scope}, nullptr);
}

void HorovodTcpUpstream::send_entry(std::string_view name, std::uint64_t number, HorovodValue part) {
  // Without a link it is lost, and parent_connected() sends it again.
  send_frame({.kind = HorovodFrameKind::kEnter, .id = number, .key = name}, std::move(part));
}

bool HorovodTcpUpstream::send_frame(const HorovodFrame& frame, HorovodValue value) {
  connect_first();
  if (link_ == nullptr) return false;
  link_->send(frame, std::move(value));
  return true;
}

void HorovodTcpUpstream::ask(Request request) {
  const std::uint64_t id = next_id_++;
  const Request& asked = unanswered_.emplace(id, std::move(request)).first->second;
  connect_first();
  if (link_ != nullptr) send(id, asked);
}

void HorovodTcpUpstream::send(std::uint64_t id, const Request& request) {
  link_->send({.kind = request.kind, .id = id, .scope = request.scope, .key = request.key}, request.value);
}

base::Status HorovodTcpUpstream::on_frame(const HorovodFrame& frame) {
  if (frame.kind == HorovodFrameKind::kDone) return on_done(frame);
  if (frame.kind == HorovodFrameKind::kMet && meetings_ != nullptr) {
    return meetings_->from_parent(frame.key, frame.id, frame.value);
  }
  const bool is_of_stream = frame.kind >= HorovodFrameKind::kStreamOpen && frame.kind <= HorovodFrameKind::kStreamWait;
  if (is_of_stream && streams_ != nullptr) return streams_->on_frame(frame);
  if (!follows_.contains(frame.scope)) {
    return base::invalid_argument("Horovod upstream: received a scope that it does not follow");
  }
  if (listener_ == nullptr) return base::ok_status();
  switch (frame.kind) {
    case HorovodFrameKind::kBegin:
      listener_->on_begin(frame.scope);
      break;
    case HorovodFrameKind::kSynced:
      listener_->on_synced(frame.scope);
      break;
    case HorovodFrameKind::kSet:
      listener_->on_set(frame.scope, frame.key, make_horovod_value(std::string(frame.value)));
      break;
    case HorovodFrameKind::kSetPacked: {
      MUSTER_ASSIGN_OR_RETURN(std::string value, unpack_horovod_value(frame.value, limits_.store.max_value_bytes));
      listener_->on_set(frame.scope, frame.key, make_horovod_value(std::move(value)));
      break;
    }
    case HorovodFrameKind::kErased:
      listener_->on_erased(frame.scope, frame.key);
      break;
    case HorovodFrameKind::kCleared:
      listener_->on_cleared(frame.scope);
      break;
    default:
      return base::invalid_argument("Horovod upstream: the store sent a frame of kind {}",
                                    static_cast<int>(frame.kind));
  }
  return base::ok_status();
}

base::Status HorovodTcpUpstream::on_done(const HorovodFrame& frame) {
  const auto found = unanswered_.find(frame.id);
  if (found == unanswered_.end()) {
    return base::invalid_argument("Horovod upstream: received an answer to request {}, which it did not send",
                                  frame.id);
  }
  const Done done = std::move(found->second.done);
  unanswered_.erase(found);
  if (done != nullptr) done({frame.code, std::string(frame.value)});
  return base::ok_status();
}

}  // namespace muster::rendezvous
