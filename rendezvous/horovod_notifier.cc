// Notices to workers: one connection for each.
#include "rendezvous/horovod_notifier.h"

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <string>
#include <utility>

#include "rendezvous/horovod_notice.h"
#include "rendezvous/horovod_worker_address.h"

namespace muster::rendezvous {
namespace {

namespace asio = boost::asio;
using NoticeSocket = asio::basic_stream_socket<asio::ip::tcp, asio::io_context::executor_type>;
using Failure = boost::system::error_code;

}  // namespace

class HorovodNotifier::Sending : public std::enable_shared_from_this<Sending> {
 public:
  Sending(base::Loop& loop, std::string key, std::string frame, Done done)
      : loop_(loop), key_(std::move(key)), frame_(std::move(frame)), done_(std::move(done)), socket_(loop.context()) {}

  auto then(const char* what, void (Sending::*next)()) {
    return [self = shared_from_this(), what, next](Failure failed, std::size_t = 0) {
      if (self->done_ == nullptr) return;
      if (failed) return self->end(base::unavailable("notice to a worker: {}: {}", what, failed.message()));
      (self.get()->*next)();
    };
  }

  void begin(std::uint16_t port, base::Duration limit) {
    deadline_ = loop_.after(limit, [this] { end(base::deadline_exceeded("notice to a worker: no answer")); });
    socket_.async_connect({asio::ip::address_v4::loopback(), port}, then("connect", &Sending::write));
  }

  // Ends the notice without calling `done`.
  void abandon() {
    done_ = nullptr;
    deadline_.cancel();
    Failure ignored;  // the socket counts as closed even if close() fails
    socket_.close(ignored);
  }

 private:
  void write() { asio::async_write(socket_, asio::buffer(frame_), then("write", &Sending::read_head)); }

  void read_head() { asio::async_read(socket_, asio::buffer(head_), then("read", &Sending::read_body)); }

  void read_body() {
    const auto size = horovod_notice_body_size({head_.data(), head_.size()});
    if (!size.ok()) return end(size.status());
    body_.resize(*size);
    asio::async_read(socket_, asio::buffer(body_), then("read", &Sending::check));
  }

  void check() { end(check_horovod_notice(key_, {head_.data(), head_.size()}, body_)); }

  void end(base::Status status) {
    const Done done = std::exchange(done_, nullptr);
    abandon();
    if (done != nullptr) done(std::move(status));
  }

  base::Loop& loop_;
  const std::string key_;
  const std::string frame_;
  Done done_;
  NoticeSocket socket_;
  base::Timer deadline_;
  std::array<char, kHorovodNoticeHead> head_{};
  std::string body_;
};

HorovodNotifier::~HorovodNotifier() {
  for (const auto& sending : sending_) sending->abandon();
}

void HorovodNotifier::notify(std::string_view address, std::int64_t timestamp, std::uint8_t result, Done done) {
  auto worker = parse_horovod_worker_address(address);
  if (!worker.ok()) {
    // Call `done` from the loop in every case. The set keeps the entry until then.
    auto refused = std::make_shared<Sending>(loop_, "", "", nullptr);
    sending_.insert(refused);
    loop_.post([this, weak = std::weak_ptr(refused), done = std::move(done), why = worker.status()] {
      const auto still = weak.lock();
      if (still == nullptr || sending_.erase(still) == 0) return;
      done(why);
    });
    return;
  }
  const std::uint16_t port = worker->endpoints.front().port;
  std::string frame = horovod_notice_frame(worker->key, horovod_notice_body(timestamp, result));
  auto weak = std::make_shared<std::weak_ptr<Sending>>();
  auto sending = std::make_shared<Sending>(loop_, std::move(worker->key), std::move(frame),
                                           [this, weak, done = std::move(done)](base::Status status) {
                                             sending_.erase(weak->lock());
                                             done(std::move(status));
                                           });
  *weak = sending;
  sending_.insert(sending);
  sending->begin(port, time_limit_);
}

}  // namespace muster::rendezvous
