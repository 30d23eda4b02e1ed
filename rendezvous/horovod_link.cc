// One link of Horovod frames: reading, writing, and loss of the peer.
// Read the class's read() and send() first, then its close functions, then notice_loss_early().
#include "rendezvous/horovod_link.h"
#include "base/net.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <deque>
#include <utility>
#include <vector>

namespace muster::rendezvous {
namespace {

namespace asio = boost::asio;
using Socket = asio::basic_stream_socket<asio::generic::stream_protocol, asio::io_context::executor_type>;
using Failure = boost::system::error_code;

constexpr std::size_t kLinkReadBytes = 64 << 10;
constexpr std::size_t kFramesAtOnce = 32;  // each has two buffers; one write takes at most 64 (asio) or 1024 (kernel)
constexpr int kProbeAfterSeconds = 5;
constexpr int kGoneAfterMs = 15'000;

void set(int fd, int level, int option, int value) {
  ::setsockopt(fd, level, option, &value,
               sizeof value);  // best effort: if it fails, a lost peer is only noticed later
}

void notice_loss_early(int fd) {
  set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(fd, IPPROTO_TCP, TCP_KEEPIDLE, kProbeAfterSeconds);
  set(fd, IPPROTO_TCP, TCP_KEEPINTVL, kProbeAfterSeconds);
  set(fd, IPPROTO_TCP, TCP_KEEPCNT, 2);
  set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, kGoneAfterMs);
}

}  // namespace

class HorovodLink::State : public std::enable_shared_from_this<State> {
 public:
  State(base::Loop& loop, const StoreLimits& limits, std::size_t max_queued_bytes, Events events)
      : loop_(loop),
        limits_(limits),
        max_queued_bytes_(max_queued_bytes),
        events_(std::move(events)),
        socket_(loop.context()) {}

  void begin(base::UniqueFd fd) {
    notice_loss_early(fd.get());
    Failure failed;
    socket_.assign(asio::generic::stream_protocol(base::address_family(fd.get()), IPPROTO_TCP), fd.get(), failed);
    if (!failed) fd.release();  // if assign() failed, reading fails, too, and closes the link
    read();
  }

  void send(const HorovodFrame& frame, HorovodValue value) {
    if (is_closed_) return;
    Outgoing out{horovod_frame_head(frame), std::move(value)};
    queued_bytes_ += out.size();
    queue_.push_back(std::move(out));
    if (queued_bytes_ > max_queued_bytes_) {
      close_soon(base::resource_exhausted("Horovod link: the peer does not read; {} bytes wait for it", queued_bytes_));
    } else if (!is_writing_) {
      write();
    }
  }

  // Closes the link without calling on_closed.
  void abandon() {
    is_closed_ = true;
    Failure ignored;  // the socket counts as closed even if close() fails
    socket_.close(ignored);
    queue_.clear();
  }

 private:
  struct Outgoing {
    std::string head;
    HorovodValue value;
    std::size_t size() const { return head.size() + (value == nullptr ? 0 : value->size()); }
  };

  void read() {
    if (in_.size() - in_end_ < kLinkReadBytes) in_.resize(in_end_ + kLinkReadBytes);
    socket_.async_read_some(asio::buffer(in_.data() + in_end_, in_.size() - in_end_),
                            [self = shared_from_this()](Failure failed, std::size_t size) {
                              if (self->is_closed_) return;
                              if (failed) return self->close(broken("read", failed));
                              self->in_end_ += size;
                              self->read_frames();
                            });
  }

  static base::Status broken(std::string_view what, const Failure& failed) {
    return base::unavailable("Horovod link: {}: {}", what, failed.message());
  }

  void read_frames() {
    std::string_view rest(in_.data(), in_end_);
    while (!is_closed_) {
      const auto parse = parse_horovod_frame(rest, limits_);
      if (!parse.ok()) return close(parse.status());
      if (!parse->is_complete) break;
      if (auto refused = events_.on_frame(parse->frame); !refused.ok()) return close(refused);
      rest.remove_prefix(parse->size);
    }
    if (is_closed_) return;
    std::copy(rest.begin(), rest.end(), in_.begin());
    in_end_ = rest.size();
    read();
  }

  void write() {
    is_writing_ = true;
    std::vector<asio::const_buffer> buffers;
    const std::size_t count = std::min(queue_.size(), kFramesAtOnce);
    for (std::size_t i = 0; i < count; ++i) {
      buffers.push_back(asio::buffer(queue_[i].head));
      if (queue_[i].value != nullptr) buffers.push_back(asio::buffer(*queue_[i].value));
    }
    asio::async_write(socket_, buffers, [self = shared_from_this(), count](Failure failed, std::size_t) {
      if (self->is_closed_) return;
      if (failed) return self->close(broken("write", failed));
      self->on_written(count);
    });
  }

  void on_written(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      queued_bytes_ -= queue_.front().size();
      queue_.pop_front();
    }
    is_writing_ = false;
    if (!queue_.empty()) write();
  }

  void close_soon(base::Status why) {
    loop_.post([self = shared_from_this(), why = std::move(why)] {
      if (!self->is_closed_) self->close(why);
    });
  }

  void close(const base::Status& why) {
    abandon();
    const auto on_closed = std::exchange(events_.on_closed, {});
    on_closed(why);
  }

  base::Loop& loop_;
  const StoreLimits limits_;
  const std::size_t max_queued_bytes_;
  Events events_;
  Socket socket_;
  std::vector<char> in_;
  std::size_t in_end_ = 0;      // received bytes of in_
  std::deque<Outgoing> queue_;  // a deque, because push_back must not move the frame that is being written
  std::size_t queued_bytes_ = 0;
  bool is_writing_ = false;
  bool is_closed_ = false;
};

HorovodLink::HorovodLink(base::Loop& loop, base::UniqueFd fd, const StoreLimits& limits, std::size_t max_queued_bytes,
                         Events events)
    : state_(std::make_shared<State>(loop, limits, max_queued_bytes, std::move(events))) {
  state_->begin(std::move(fd));
}

HorovodLink::~HorovodLink() {
  state_->abandon();
}

void HorovodLink::send(HorovodFrame frame, HorovodValue value) {
  if (value != nullptr) frame.value = *value;
  state_->send(frame, std::move(value));
}

}  // namespace muster::rendezvous
