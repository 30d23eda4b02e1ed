// The least that any server does for store_load: it waits, receives, and sends the replies that store_load checks. It
// has no store and understands no request: it counts bytes, and knows which request of the round they end. Its
// processor time is what the system's sockets cost. It prints its port, and ends with its stdin.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>

#include "base/net.h"
#include "base/unique_fd.h"

namespace {

using namespace muster;

constexpr std::size_t kValue = 64;  // what store_load sends, if it is not told otherwise

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "store_floor: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

std::string number(std::uint64_t value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

// One connection of store_load, which sends SET, GET, ADD and CHECK in turn.
class Connection {
 public:
  explicit Connection(base::UniqueFd fd) : fd_(std::move(fd)) {}

  int fd() const { return fd_.get(); }

  // False if the peer has gone.
  bool serve(std::array<char, 128 << 10>& buffer) {
    const ssize_t size = ::recv(fd_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (size <= 0) return size < 0 && errno == EAGAIN;
    if (key_ == 0) {
      std::uint64_t key = 0;
      std::memcpy(&key, buffer.data() + 1, sizeof key);
      key_ = static_cast<std::size_t>(key);
    }
    held_ += static_cast<std::size_t>(size);
    replies_.clear();
    while (held_ >= request_size()) take();
    return replies_.empty() || ::send(fd_.get(), replies_.data(), replies_.size(), MSG_NOSIGNAL) > 0;
  }

 private:
  std::size_t request_size() const {
    const std::array<std::size_t, 4> sizes = {1 + 8 + key_ + 8 + kValue, 1 + 8 + key_, 1 + 8 + key_ + 2 + 8,
                                              1 + 8 + 8 + key_};
    return sizes[step_ % 4];
  }

  void take() {
    held_ -= request_size();
    switch (step_++ % 4) {
      case 1:
        replies_ += number(kValue) + std::string(kValue, 'v');
        return;
      case 2:
        replies_ += number(++sum_);
        return;
      case 3:
        replies_ += '\0';
        return;
      default:
        return;  // SET has no reply
    }
  }

  base::UniqueFd fd_;
  std::size_t key_ = 0;
  std::size_t held_ = 0;
  std::size_t step_ = 0;
  std::uint64_t sum_ = 0;
  std::string replies_;
};

void watch(int epoll, int fd, void* what) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = what;
  if (::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) fail("epoll_ctl");
}

// Until stdin ends.
void serve(int listening) {
  const base::UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) fail("epoll_create1");
  std::array<char, 128 << 10> buffer;
  std::array<epoll_event, 128> ready;
  std::deque<Connection> connections;
  int listener = listening;
  int input = STDIN_FILENO;
  watch(epoll.get(), listener, &listener);
  watch(epoll.get(), input, &input);
  for (;;) {
    const int count = ::epoll_wait(epoll.get(), ready.data(), static_cast<int>(ready.size()), -1);
    for (int i = 0; i < count; ++i) {
      void* const what = ready[static_cast<std::size_t>(i)].data.ptr;
      if (what == &input) return;
      if (what == &listener) {
        base::UniqueFd fd(::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (!fd.valid()) fail("accept4");
        const int on = 1;
        ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        Connection& connection = connections.emplace_back(std::move(fd));
        watch(epoll.get(), connection.fd(), &connection);
      } else if (auto* const connection = static_cast<Connection*>(what); !connection->serve(buffer)) {
        ::epoll_ctl(epoll.get(), EPOLL_CTL_DEL, connection->fd(), nullptr);
      }
    }
  }
}

}  // namespace

int main() {
  auto listening = base::listen_any(0, 128);
  if (!listening.ok()) fail("listen");
  const auto port = base::local_port(listening->get());
  if (!port.ok()) fail("getsockname");
  std::printf("port %d\n", static_cast<int>(*port));
  std::fflush(stdout);
  serve(listening->get());
  return 0;
}
