// The HTTP server for Horovod workers: sessions, their time limits, and room for new ones.
// Read Session::advance() first, then its reads and writes, then the server's limits and constructor.
#include "rendezvous/horovod_server.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/write.hpp>
#include <list>
#include <utility>

#include "base/descriptor_limit.h"
#include "base/net.h"

namespace muster::rendezvous {
namespace {

namespace asio = boost::asio;
// Use the executor's own type, because the type-erased default costs time in every operation.
using Socket = asio::basic_stream_socket<asio::generic::stream_protocol, asio::io_context::executor_type>;
using Failure = boost::system::error_code;

constexpr std::size_t kRequestReadBytes = 16 << 10;

int status_of(const base::Status& refused) {
  switch (refused.code()) {
    case base::Code::kInvalidArgument:
      return 413;
    case base::Code::kResourceExhausted:
      return 507;
    case base::Code::kUnavailable:
      return 503;
    default:
      return 500;
  }
}

HorovodValue empty_value() {
  static const HorovodValue kEmpty = make_horovod_value("");
  return kEmpty;
}

class Session;
using Sessions = std::list<std::shared_ptr<Session>>;

// State that the sessions share: the sessions in the order of their last activity, and the memory that they hold.
struct Shared {
  base::Loop& loop;
  HorovodKeys& keys;
  const HorovodServerLimits limits;
  Sessions waiting{};  // wait for the client; the longest wait first
  Sessions serving{};  // sessions whose request HorovodKeys handles now
  std::size_t body_bytes = 0;
  HorovodServerCounts counts{};
  HorovodServer::OnMissing on_missing{};
};

// One connection. The lists of Shared own it. Handlers in progress keep it alive a little longer, but after close()
// they do not use Shared.
class Session final : public std::enable_shared_from_this<Session> {
 public:
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): bytes_ is not filled with zeros for each connection
  Session(Shared& shared, base::UniqueFd fd)
      : shared_(shared), socket_(shared.loop.context()), reader_(shared.limits.request) {
    Failure failed;
    socket_.assign(asio::generic::stream_protocol(base::address_family(fd.get()), IPPROTO_TCP), fd.get(), failed);
    if (!failed) fd.release();  // if assign() failed, reading fails, too, and closes the session
  }

  void begin() {
    where_ = shared_.waiting.insert(shared_.waiting.end(), shared_from_this());
    is_serving_ = false;
    since_ = std::chrono::steady_clock::now();
    read();
  }

  // Drops the list's reference, so the caller must hold another one.
  void close() {
    if (std::exchange(is_closed_, true)) return;
    Failure ignored;  // the socket counts as closed even if close() fails
    socket_.close(ignored);
    uncharge();
    (is_serving_ ? shared_.serving : shared_.waiting).erase(where_);
  }

  base::MonotonicTime since() const { return since_; }

 private:
  // Moves the session to the end of the list `serving` or `waiting`. A serving session has no time limit.
  void enter(bool is_serving) {
    Sessions& from = is_serving_ ? shared_.serving : shared_.waiting;
    Sessions& to = is_serving ? shared_.serving : shared_.waiting;
    to.splice(to.end(), from, where_);
    is_serving_ = is_serving;
    since_ = std::chrono::steady_clock::now();
  }

  void read() {
    socket_.async_read_some(asio::buffer(bytes_), [self = shared_from_this()](Failure failed, std::size_t size) {
      if (self->is_closed_) return;
      if (failed) return self->close();
      self->left_ = {self->bytes_.data(), size};
      self->advance();
    });
  }

  void advance() {
    if (is_refused_) return read();  // read only to notice when the client closes
    const auto state = reader_.feed(&left_);
    if (state == HorovodRequestReader::State::kRefused) return refuse(reader_.refusal());
    if (!charge(reader_.body_size())) return refuse(503);
    if (state == HorovodRequestReader::State::kComplete) return serve();
    read();
  }

  bool charge(std::size_t bytes) {
    if (bytes <= charged_) return true;
    if (shared_.body_bytes + bytes - charged_ > shared_.limits.max_body_bytes) return false;
    shared_.body_bytes += bytes - charged_;
    charged_ = bytes;
    return true;
  }

  void uncharge() { shared_.body_bytes -= std::exchange(charged_, 0); }

  void serve() {
    HorovodRequest request = reader_.take();
    ++shared_.counts.requests;
    enter(true);
    const auto done = [self = shared_from_this()](const base::Status& status) {
      self->on_value(status.ok() ? base::Result<HorovodValue>(empty_value()) : status);
    };
    switch (request.verb) {
      case HorovodRequest::Verb::kGet:
        asks_for_numbers_ = request.scope == "rank_and_size";
        if (shared_.on_missing) return get_watched(request);
        return shared_.keys.get(
            request.scope, request.key,
            [self = shared_from_this()](const base::Result<HorovodValue>& value) { self->on_value(value); });
      case HorovodRequest::Verb::kPut:
        return shared_.keys.put(request.scope, request.key, make_horovod_value(std::move(request.body)), done);
      case HorovodRequest::Verb::kDelete:
        return shared_.keys.finish(request.scope, request.key, done);
    }
  }

  void get_watched(const HorovodRequest& request) {
    shared_.keys.get(
        request.scope, request.key,
        [self = shared_from_this(), scope = request.scope, key = request.key](const base::Result<HorovodValue>& value) {
          if (value.ok() && *value == nullptr) self->report_missing(scope, key);
          self->on_value(value);
        });
  }

  void report_missing(const std::string& scope, const std::string& key) {
    if (is_closed_ || !shared_.on_missing) return;
    const auto ends = connection_ends(socket_.native_handle());
    if (ends.ok()) shared_.on_missing(*ends, scope, key);
  }

  void on_value(const base::Result<HorovodValue>& value) {
    if (is_closed_) return;
    if (!value.ok()) return refuse(status_of(value.status()));
    reply(*value == nullptr ? 404 : 200, *value == nullptr ? empty_value() : *value);
  }

  void refuse(int status) {
    ++shared_.counts.refused;
    is_refused_ = true;
    reply(status, empty_value());
  }

  void reply(int status, HorovodValue body) {
    enter(false);
    const bool has_numbers = std::exchange(asks_for_numbers_, false) && status == 200;
    head_ = horovod_reply_head(status, body->size(), has_numbers ? shared_.keys.generation() : std::nullopt);
    body_ = std::move(body);
    const std::array<asio::const_buffer, 2> buffers{asio::buffer(head_), asio::buffer(*body_)};
    asio::async_write(socket_, buffers, [self = shared_from_this()](Failure failed, std::size_t size) {
      if (self->is_closed_) return;
      self->shared_.counts.sent_bytes += size;
      if (failed) return self->close();
      self->on_replied();
    });
  }

  void on_replied() {
    body_.reset();
    uncharge();
    enter(false);
    if (is_refused_) {
      Failure ignored;  // if the client is gone, the next read fails
      socket_.shutdown(Socket::shutdown_send, ignored);
    }
    left_.empty() ? read() : advance();
  }

  Shared& shared_;
  Socket socket_;
  HorovodRequestReader reader_;
  Sessions::iterator where_;
  bool is_serving_ = false;
  bool is_closed_ = false;
  bool asks_for_numbers_ = false;  // the request that is being answered is GET /rank_and_size
  bool is_refused_ = false;        // refuse() was called; further bytes are discarded
  base::MonotonicTime since_;
  std::size_t charged_ = 0;  // part of Shared::body_bytes
  std::string head_;
  HorovodValue body_;
  std::string_view left_;  // the part of bytes_ that reader_ has not read yet
  std::array<char, kRequestReadBytes> bytes_;
};

}  // namespace

class HorovodServer::Core {
 public:
  Core(base::Loop& loop, base::UniqueFd listening, HorovodKeys& keys, OwnerCheck check, HorovodServerLimits limits)
      : shared_{loop, keys, limits},
        listener_(
            loop, std::move(listening), std::move(check), [this](base::UniqueFd fd) { accepted(std::move(fd)); },
            limits.listener) {}

  ~Core() {
    while (!shared_.waiting.empty()) close_first(shared_.waiting);
    while (!shared_.serving.empty()) close_first(shared_.serving);
  }

  void watch_missing(OnMissing on_missing) { shared_.on_missing = std::move(on_missing); }

  HorovodServerCounts counts() const {
    HorovodServerCounts counts = shared_.counts;
    counts.connections = shared_.waiting.size() + shared_.serving.size();
    return counts;
  }

 private:
  static void close_first(Sessions& sessions) {
    const std::shared_ptr<Session> first = sessions.front();
    first->close();  // this also removes the session from its list
  }

  void accepted(base::UniqueFd fd) {
    const std::size_t most = std::min(shared_.limits.max_connections, base::descriptor_limit() / 2);
    if (shared_.waiting.size() + shared_.serving.size() >= most) {
      ++shared_.counts.made_room;
      if (shared_.waiting.empty()) return;  // every session is being served, so the new connection is closed
      close_first(shared_.waiting);
    }
    std::make_shared<Session>(shared_, std::move(fd))->begin();
    if (!expiry_.armed()) arm_expiry();
  }

  void arm_expiry() {
    const auto begin = shared_.waiting.empty() ? std::chrono::steady_clock::now() : shared_.waiting.front()->since();
    const auto left = begin + shared_.limits.time_limit - std::chrono::steady_clock::now();
    expiry_ = shared_.loop.after(left, [this] { expire(); });
  }

  void expire() {
    const auto oldest = std::chrono::steady_clock::now() - shared_.limits.time_limit;
    while (!shared_.waiting.empty() && shared_.waiting.front()->since() <= oldest) {
      ++shared_.counts.expired;
      close_first(shared_.waiting);
    }
    expiry_.cancel();
    if (!shared_.waiting.empty() || !shared_.serving.empty()) arm_expiry();
  }

  Shared shared_;
  base::Timer expiry_;
  CheckedListener listener_;
};

HorovodServer::HorovodServer(base::Loop& loop, base::UniqueFd listening, HorovodKeys& keys, OwnerCheck check,
                             HorovodServerLimits limits)
    : core_(std::make_unique<Core>(loop, std::move(listening), keys, std::move(check), limits)) {}

HorovodServer::~HorovodServer() = default;

HorovodServerCounts HorovodServer::counts() const {
  return core_->counts();
}

void HorovodServer::watch_missing(OnMissing on_missing) {
  core_->watch_missing(std::move(on_missing));
}

}  // namespace muster::rendezvous
