// For tests on one loop thread: run the loop until something holds, and a TCP client beside the server under test.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/loop.h"
#include "base/net.h"
#include "base/unique_fd.h"

namespace muster::rendezvous {

// False when it does not hold within `limit`.
inline bool run_until(base::Loop& loop, const std::function<bool()>& holds,
                      base::Duration limit = std::chrono::seconds(20)) {
  bool held = holds();
  if (held) return true;
  const auto check = loop.every(std::chrono::milliseconds(1), [&] {
    if (!held && holds()) {
      held = true;
      loop.stop();
    }
  });
  const auto end = loop.after(limit, [&] { loop.stop(); });
  loop.run();
  return held;
}

// Runs what is due, and what comes within `time`.
inline void run_for(base::Loop& loop, base::Duration time) {
  run_until(
      loop, [] { return false; }, time);
}

inline base::IpAddress loopback() {
  return base::IpAddress::parse("127.0.0.1").value();
}

// One connection to 127.0.0.1:port; what comes is collected while the loop runs.
class LoopPeer {
 public:
  LoopPeer(base::Loop& loop, std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const base::SockAddr to = base::make_sockaddr(loopback(), port);
    is_connected_ = ::connect(fd_.get(), to.get(), to.size) == 0;
    (void)base::set_nonblocking(fd_.get(), true);
    readable_ = loop.on_readable(fd_.get(), [this] { receive(); });
  }
  LoopPeer(const LoopPeer&) = delete;
  LoopPeer& operator=(const LoopPeer&) = delete;

  bool send(std::string_view bytes) {
    return ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
  }
  // Returns how many bytes the socket took.
  std::size_t send_some(std::string_view bytes) {
    const ssize_t size = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    return size < 0 ? 0 : static_cast<std::size_t>(size);
  }
  void finish_sending() { ::shutdown(fd_.get(), SHUT_WR); }
  // Called after each read and at the end; may destroy the peer's owner only from a posted task.
  void on_received(std::function<void()> task) { on_received_ = std::move(task); }
  void stop_reading() { readable_.cancel(); }
  std::uint16_t port() const { return base::local_port(fd_.get()).value(); }
  bool is_connected() const { return is_connected_; }

  const std::string& received() const { return received_; }
  const std::vector<std::size_t>& reads() const { return reads_; }  // bytes of each
  bool is_closed() const { return is_closed_; }                     // by the other end

 private:
  void receive() {
    char bytes[64 << 10];
    const ssize_t count = ::recv(fd_.get(), bytes, sizeof bytes, 0);
    if (count < 0 && errno == EAGAIN) return;
    if (count <= 0) {
      is_closed_ = true;
      readable_.cancel();
    } else {
      reads_.push_back(static_cast<std::size_t>(count));
      received_.append(bytes, static_cast<std::size_t>(count));
    }
    if (on_received_) on_received_();
  }

  base::UniqueFd fd_;
  base::Timer readable_;
  std::function<void()> on_received_;
  bool is_connected_ = false;
  std::string received_;
  std::vector<std::size_t> reads_;
  bool is_closed_ = false;
};

}  // namespace muster::rendezvous
