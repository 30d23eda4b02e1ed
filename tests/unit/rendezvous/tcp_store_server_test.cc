#include "rendezvous/tcp_store_server.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <deque>
#include <filesystem>
#include <future>
#include <iterator>
#include <mutex>
#include <optional>
#include <thread>

#include "base/net.h"
#include "rendezvous/local_owner.h"
#include "rendezvous/memory_store.h"
#include "tests/unit/rendezvous/torch_wire.h"

namespace muster::rendezvous {
namespace {

using namespace std::chrono_literals;
using testing::i64;
using testing::text;
using testing::texts;
using testing::u32;
using testing::u64;
using testing::u8;
using testing::validate;

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

void allow_all(const ConnectionEnds&, const std::function<void(bool)>& done) {
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
    if (!problem_.wait_for(lock, 20s, [this] { return !problems_.empty(); })) return "none came";
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
    EXPECT_TRUE(changed_.wait_for(lock, 20s, [&] { return asked_.size() > index; }));
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

const std::string kAddInit = u8(3) + text("init/") + i64(1);

TEST(TcpStoreServer, ServesClientsOfAllGenerations) {
  Served served;
  Client a(served.port());
  Client b(served.port(), "::1");
  Client c(served.port());
  EXPECT_EQ(a.ask(kAddInit, 8), i64(1));
  EXPECT_EQ(b.ask(kAddInit, 8), i64(2));
  EXPECT_EQ(c.ask(validate() + u8(4) + text("init/") + i64(1), 8), i64(3));
  c.send(u8(1) + text("/k") + text("value"));
  EXPECT_EQ(a.ask(u8(5) + texts({"/k"}) + u8(2) + text("/k"), 1 + 8 + 5), u8(0) + text("value"));
  EXPECT_EQ(b.ask(u8(9) + texts({"/k"}), 8 + 5), text("value"));
  EXPECT_EQ(served.counters().accepted, 3u);
}

TEST(TcpStoreServer, APingBeforeInit) {
  Served served;
  Client c(served.port());
  EXPECT_EQ(c.ask(validate() + u8(13) + u32(0xFEEDBEEF), 4), u32(0xFEEDBEEF));
  EXPECT_EQ(c.ask(u8(4) + text("init/") + i64(1), 8), i64(1));
}

TEST(TcpStoreServer, WaitsEndAcrossConnections) {
  Served served;
  Client waiter(served.port());
  Client setter(served.port());
  EXPECT_EQ(waiter.ask(kAddInit, 8), i64(1));
  waiter.send(u8(5) + texts({"/a", "/b"}));
  setter.send(u8(0) + text("/a") + text(""));
  EXPECT_EQ(setter.ask(u8(3) + text("/b") + i64(1), 8), i64(1));
  EXPECT_EQ(waiter.read(1), u8(0));
  waiter.send(u8(5) + texts({"/local"}));
  served.on_loop([&] { EXPECT_TRUE(served.store().set("/local", "").ok()); });  // not by a client of this server
  EXPECT_EQ(waiter.read(1), u8(0));
}

TEST(TcpStoreServer, ARefusedOwnerIsNotRead) {
  TcpStoreServerConfig config;
  config.owner_check = [](const ConnectionEnds& ends, const std::function<void(bool)>& done) {
    EXPECT_EQ(ends.peer.str(), "127.0.0.1");
    EXPECT_EQ(ends.local.str(), "127.0.0.1");
    EXPECT_NE(ends.peer_port, 0);
    EXPECT_NE(ends.local_port, 0);
    done(false);
  };
  Served served(std::move(config));
  Client bob(served.port());
  bob.send(u8(0) + text("/k") + text("stolen"));
  EXPECT_TRUE(bob.is_closed());
  EXPECT_NE(served.next_problem().find("its owner is not the job's user"), std::string::npos);
  EXPECT_EQ(served.counters().refused, 1u);
  served.on_loop([&] { EXPECT_EQ(served.store().size(), 0u); });
}

TEST(TcpStoreServer, TheOwnerMayBeToldLater) {
  LateCheck check;
  TcpStoreServerConfig config;
  config.owner_check = check.check();
  Served served(std::move(config));
  Client client(served.port());
  client.send(kAddInit);
  const auto answer = check.wait_for(0);
  EXPECT_TRUE(client.has_nothing_to_read());
  served.on_loop([&] { EXPECT_EQ(served.store().size(), 0u); });
  served.on_loop([&] { answer(true); });
  EXPECT_EQ(client.read(8), i64(1));
  served.on_loop([&] { answer(false); });  // only the first counts
  EXPECT_EQ(client.ask(kAddInit, 8), i64(2));
}

TEST(TcpStoreServer, ACheckThatTakesTooLongRefuses) {
  LateCheck check;
  TcpStoreServerConfig config;
  config.owner_check = check.check();
  config.listener.check_limit = 20ms;
  Served served(std::move(config));
  Client client(served.port());
  client.send(kAddInit);
  EXPECT_TRUE(client.is_closed());
  served.on_loop([&] { check.wait_for(0)(true); });
  EXPECT_EQ(served.counters().open, 0u);
}

TEST(TcpStoreServer, AnAnswerAfterTheServersEndIsIgnored) {
  LateCheck check;
  {
    TcpStoreServerConfig config;
    config.owner_check = check.check();
    Served served(std::move(config));
    Client client(served.port());
    check.wait_for(0);
  }
  check.wait_for(0)(true);
}

// The connection that an A client keeps silent counts as soon as it is there, checked or not.
TEST(TcpStoreServer, AnUncheckedTwinIsSilent) {
  LateCheck check;
  TcpStoreServerConfig config;
  config.owner_check = check.check();
  Served served(std::move(config));
  Client client(served.port());
  const auto first = check.wait_for(0);
  served.on_loop([&] { first(true); });
  EXPECT_EQ(client.ask(kAddInit, 8), i64(1));
  Client callback(served.port());
  check.wait_for(1);
  EXPECT_EQ(client.ask(u8(8) + text("init/"), 8), i64(1));  // DELETE_KEY
}

TEST(TcpStoreServer, ConnectionsAreBounded) {
  TcpStoreServerConfig config;
  config.max_connections = 1;
  Served served(std::move(config));
  Client first(served.port());
  EXPECT_EQ(first.ask(kAddInit, 8), i64(1));
  Client second(served.port());
  EXPECT_TRUE(second.is_closed());
  EXPECT_NE(served.next_problem().find("1 connections are open already"), std::string::npos);
  EXPECT_EQ(first.ask(kAddInit, 8), i64(2));
}

TEST(TcpStoreServer, JunkEndsOnlyItsOwnConnection) {
  Served served;
  Client good(served.port());
  EXPECT_EQ(good.ask(kAddInit, 8), i64(1));
  const std::string junk[] = {"GET / HTTP/1.0\r\n\r\n",
                              "\x16\x03\x01\x02\x00\x01",
                              u8(0) + u64(~std::uint64_t{0}),
                              u8(5) + u64(std::uint64_t{1} << 40),
                              validate() + "\xFF",
                              std::string("\x00\xCE\xF7\x85\x3B\x00\x00\x00\x00", 9)};
  for (const std::string& bytes : junk) {
    Client bad(served.port());
    bad.send(bytes);
    EXPECT_TRUE(bad.is_closed());
    const std::string problem = served.next_problem();
    EXPECT_TRUE(problem.starts_with("TCPStore: connection from 127.0.0.1:")) << problem;
  }
  EXPECT_EQ(good.ask(kAddInit, 8), i64(2));
  EXPECT_EQ(served.counters().failed, std::size(junk));
  served.expect_open(1);
}

TEST(TcpStoreServer, RepliesBeforeJunkAreSent) {
  Served served;
  Client client(served.port());
  EXPECT_EQ(client.ask(kAddInit + "\x63", 8), i64(1));
  EXPECT_TRUE(client.is_closed());
}

TEST(TcpStoreServer, ASlowReaderDelaysNobodyAndGetsEverything) {
  Served served;
  Client slow(served.port(), "127.0.0.1", 4096);
  Client other(served.port());
  const std::string value(1 << 20, 'v');
  slow.send(u8(0) + text("/k") + text(value));
  // Until the server takes no more: its replies of a megabyte each are not read.
  const std::string get = u8(2) + text("/k");
  std::size_t asked = 0;
  std::string requests;
  for (int i = 0; i < 50'000; ++i) requests += get;
  std::string_view rest = requests;
  for (int idle = 0; idle < 100 && !rest.empty();) {
    const std::size_t size = slow.send_some(rest);
    rest.remove_prefix(size);
    asked += size;
    EXPECT_EQ(other.ask(kAddInit, 8).size(), 8u);  // the server has had a turn
    idle = size == 0 ? idle + 1 : 0;
  }
  for (int i = 0; i < 20; ++i) EXPECT_EQ(slow.read(8 + value.size()), text(value));
  EXPECT_EQ(other.ask(u8(6), 8), i64(2));
  EXPECT_GT(asked, 20 * get.size());
}

TEST(TcpStoreServer, HalfARequestDelaysNobody) {
  Served served;
  Client half(served.port());
  Client other(served.port());
  const std::string request = u8(0) + text("/k") + text(std::string(100'000, 'v'));
  half.send(request.substr(0, 50'000));
  EXPECT_EQ(other.ask(kAddInit, 8), i64(1));
  half.send(request.substr(50'000));
  EXPECT_EQ(half.ask(u8(6), 8), i64(2));
}

TEST(TcpStoreServer, WhoEndsItsSendingGetsItsReplies) {
  Served served;
  Client client(served.port());
  std::string requests = u8(0) + text("/k") + text(std::string(8 << 20, 'v'));
  for (int i = 0; i < 4; ++i) requests += u8(2) + text("/k");
  client.send(requests);
  client.end_sending();
  EXPECT_EQ(client.read(std::size_t{4} * (8 + (8 << 20))).size(), std::size_t{4} * (8 + (8 << 20)));
  EXPECT_TRUE(client.is_closed());
  served.expect_open(0);
}

TEST(TcpStoreServer, ClientsThatVanishAreForgotten) {
  Served served;
  {
    Client waiting(served.port());
    waiting.send(u8(5) + texts({"/never"}));
    Client watching(served.port());
    EXPECT_EQ(watching.ask(u8(7) + text("/w"), 1), u8(3));
    Client reset(served.port());
    EXPECT_EQ(reset.ask(kAddInit, 8), i64(1));
    reset.send(u8(5) + texts({"/never"}));
    reset.reset();
  }
  served.expect_open(0);
  Client client(served.port());
  client.send(u8(0) + text("/never") + text("") + u8(0) + text("/w") + text(""));
  EXPECT_EQ(client.ask(u8(6), 8), i64(3));
}

TEST(TcpStoreServer, AWatcherThatDoesNotReadIsClosed) {
  TcpStoreServerConfig config;
  config.limits.max_reply_bytes = 4 << 20;
  Served served(std::move(config));
  Client watcher(served.port(), "127.0.0.1", 4096);
  EXPECT_EQ(watcher.ask(u8(7) + text("/w"), 1), u8(3));
  Client setter(served.port());
  const std::string set = u8(0) + text("/w") + text(std::string(1 << 20, 'v'));
  for (int i = 0; i < 20 && served.counters().failed == 0; ++i) {
    setter.send(set);
    EXPECT_EQ(setter.ask(u8(6), 8), i64(1));
  }
  EXPECT_NE(served.next_problem().find("is longer than"), std::string::npos);
  EXPECT_EQ(setter.ask(u8(6), 8), i64(1));
}

TEST(TcpStoreServer, RenewBeginsAnew) {
  LateCheck check;
  TcpStoreServerConfig config;
  config.owner_check = check.check();
  Served served(std::move(config));
  Client old(served.port());
  const auto allow = [&](std::size_t index) {
    const auto answer = check.wait_for(index);
    served.on_loop([&] { answer(true); });
  };
  allow(0);
  EXPECT_EQ(old.ask(kAddInit + u8(5) + texts({"/never"}), 8), i64(1));
  Client unchecked(served.port());
  check.wait_for(1);
  MemoryStore fresh;
  std::optional<Client> unaccepted;
  served.on_loop([&] {
    unaccepted.emplace(served.port());  // while the loop cannot accept it
    EXPECT_TRUE(served.server().renew(&fresh).ok());
  });
  EXPECT_TRUE(old.is_closed());
  EXPECT_TRUE(unchecked.is_closed());
  EXPECT_TRUE(unaccepted->is_closed());
  Client next(served.port());
  allow(2);
  EXPECT_EQ(next.ask(u8(6) + kAddInit, 16), i64(0) + i64(1));
  served.on_loop([&] {
    EXPECT_EQ(fresh.size(), 1u);
    EXPECT_EQ(served.server().counters().open, 1u);
  });
}

TEST(TcpStoreServer, ManyClientsAtOnce) {
  Served served;
  constexpr int kClients = 100;
  std::deque<Client> clients;
  for (int i = 0; i < kClients; ++i) clients.emplace_back(served.port());
  std::vector<std::string> keys;
  for (int i = 0; i < kClients; ++i) keys.push_back("/rank_" + std::to_string(i));
  for (Client& client : clients) client.send(kAddInit + u8(5) + texts(keys));
  for (int i = 0; i < kClients; ++i) {
    clients[static_cast<std::size_t>(i)].send(u8(0) + text(keys[static_cast<std::size_t>(i)]) + text("address"));
  }
  for (Client& client : clients) {
    EXPECT_EQ(client.read(9).substr(8), u8(0));
    EXPECT_EQ(client.ask(u8(2) + text(keys.back()), 15), text("address"));
  }
  clients.clear();
  served.expect_open(0);
}

TEST(TcpStoreServer, TheUsersOwnConnectionsAreLet) {
  TcpStoreServerConfig config;
  config.owner_check = allow_local_owner(::getuid());
  Served served(std::move(config));
  EXPECT_EQ(Client(served.port()).ask(kAddInit, 8), i64(1));
  EXPECT_EQ(Client(served.port(), "::1").ask(kAddInit, 8), i64(2));
}

std::size_t open_descriptors() {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator()));
}

TEST(TcpStoreServer, LeavesNoDescriptorsBehind) {
  const std::size_t before = open_descriptors();
  {
    Served served;
    Client client(served.port());
    EXPECT_EQ(client.ask(kAddInit, 8), i64(1));
    EXPECT_GT(open_descriptors(), before);
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(TcpStoreServer, WantsAListeningSocket) {
  base::Loop loop;
  MemoryStore store;
  TcpStoreServerConfig config;
  config.owner_check = allow_all;
  const auto server =
      TcpStoreServer::start(&loop, base::UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), &store, config);
  EXPECT_EQ(server.status().code(), base::Code::kInvalidArgument);
}

}  // namespace
}  // namespace muster::rendezvous
