// For tests of the TCP store's server: a server on a thread of its own, and clients that speak to it over sockets.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/loop.h"
#include "base/net.h"
#include "rendezvous/memory_store.h"
#include "rendezvous/tcp_store_server.h"
#include "tests/unit/rendezvous/torch_wire.h"

namespace muster::rendezvous::testing {

inline const std::string kAddInit = u8(3) + text("init/") + i64(1);

// A blocking client; what does not come within 20 s is a failure.
class Client {
 public:
  explicit Client(std::uint16_t port, const char* address = "127.0.0.1", int receive_buffer = 0) {
    const base::SockAddr to = base::make_sockaddr(*base::IpAddress::parse(address), port);
    fd_.reset(::socket(to.get()->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const timeval patience{20, 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (receive_buffer > 0) {
      ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    }
    EXPECT_EQ(::connect(fd_.get(), to.get(), to.size), 0);
  }

  void send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t size = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (size <= 0) return;  // the server has closed; what follows notices
      bytes.remove_prefix(static_cast<std::size_t>(size));
    }
  }
  // As much as the sockets take without waiting.
  std::size_t send_some(std::string_view bytes) {
    const ssize_t size = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    return size < 0 ? 0 : static_cast<std::size_t>(size);
  }
  std::string read(std::size_t size) {
    std::string bytes(size, '\0');
    std::size_t have = 0;
    while (have < size) {
      const ssize_t got = ::recv(fd_.get(), bytes.data() + have, size - have, 0);
      if (got <= 0) break;
      have += static_cast<std::size_t>(got);
    }
    bytes.resize(have);
    return bytes;
  }
  std::string ask(std::string_view request, std::size_t reply_size) {
    send(request);
    return read(reply_size);
  }
  // The server has closed, and has sent nothing more.
  bool is_closed() {
    char byte;
    const ssize_t size = ::recv(fd_.get(), &byte, 1, 0);
    return size == 0 || (size < 0 && errno == ECONNRESET);
  }
  bool has_nothing_to_read() {
    char byte;
    return ::recv(fd_.get(), &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
  }
  std::uint16_t port() const { return *base::local_port(fd_.get()); }
  void end_sending() { ::shutdown(fd_.get(), SHUT_WR); }
  // Gone without a goodbye: a reset.
  void reset() {
    const linger at_once{1, 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    fd_.reset();
  }

 private:
  base::UniqueFd fd_;
};

inline void allow_all(const ConnectionEnds&, const std::function<void(bool)>& done) {
  done(true);
}

// A server on a thread of its own.
class Served {
 public:
  explicit Served(TcpStoreServerConfig config = {}, StoreLimits limits = {}) : store_(limits) {
    if (!config.owner_check) config.owner_check = allow_all;
    config.on_problem = [this](const base::Status& status) {
      const std::lock_guard lock(mutex_);
      problems_.push_back(status.message());
      problem_.notify_all();
    };
    auto listening = base::listen_any(0, 1024);
    EXPECT_TRUE(listening.ok());
    port_ = *base::local_port(listening->get());
    auto server = TcpStoreServer::start(&loop_, std::move(*listening), &store_, std::move(config));
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = std::move(*server);
    thread_ = std::thread([this] { loop_.run(); });
  }
  ~Served() {
    on_loop([this] { server_.reset(); });
    loop_.stop();
    thread_.join();
  }

  std::uint16_t port() const { return port_; }
  MemoryStore& store() { return store_; }  // on the loop
  TcpStoreServer& server() { return *server_; }

  void on_loop(const std::function<void()>& task) {
    std::promise<void> done;
    loop_.post([&] {
      task();
      done.set_value();
    });
    done.get_future().wait();
  }
  TcpStoreCounters counters() {
    TcpStoreCounters result;
    on_loop([&] { result = server_->counters(); });
    return result;
  }
  std::string next_problem() {
    std::unique_lock lock(mutex_);
    if (!problem_.wait_for(lock, std::chrono::seconds(20), [this] { return !problems_.empty(); })) return "none came";
    std::string text = std::move(problems_.front());
    problems_.pop_front();
    return text;
  }
  // The server has noticed that all but `count` clients are gone: it hears of that in the order in which it happened.
  void expect_open(std::size_t count) {
    for (int i = 0; i < 20'000 && counters().open != count; ++i) std::this_thread::yield();
    EXPECT_EQ(counters().open, count);
  }

 private:
  base::Loop loop_;
  MemoryStore store_;
  std::uint16_t port_ = 0;
  std::unique_ptr<TcpStoreServer> server_;
  std::mutex mutex_;
  std::condition_variable problem_;
  std::deque<std::string> problems_;
  std::thread thread_;
};

// An owner check whose answers the test gives, in its own time.
class LateCheck {
 public:
  OwnerCheck check() {
    return [this](const ConnectionEnds&, std::function<void(bool)> done) {
      const std::lock_guard lock(mutex_);
      asked_.push_back(std::move(done));
      changed_.notify_all();
    };
  }
  std::function<void(bool)> wait_for(std::size_t index) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(20), [&] { return asked_.size() > index; }));
    return asked_.at(index);
  }
  std::size_t asked() {
    const std::lock_guard lock(mutex_);
    return asked_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::function<void(bool)>> asked_;
};

}  // namespace muster::rendezvous::testing
