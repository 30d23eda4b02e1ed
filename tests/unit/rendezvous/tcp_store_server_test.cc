#include "rendezvous/tcp_store_server.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <filesystem>
#include <iterator>
#include <optional>

#include "base/net.h"
#include "rendezvous/memory_store.h"
#include "tests/unit/rendezvous/tcp_store_rig.h"
#include "tests/unit/rendezvous/torch_wire.h"

namespace muster::rendezvous::tcp_store_server_test {
namespace {

using namespace std::chrono_literals;
using namespace testing;

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

TEST(TcpStoreServer, ConnectionsAreBounded) {
  Served served({.max_connections = 1});
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
  Served served({.owner_check = check.check()});
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
  const auto server = TcpStoreServer::start(&loop, base::UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)),
                                            &store, {.owner_check = allow_all});
  EXPECT_EQ(server.status().code(), base::Code::kInvalidArgument);
}

TEST(TcpStoreServer, KnowsWhatTheClientOfAConnectionWaitsFor) {
  Served served;
  Client waiter(served.port());
  Client idle(served.port());
  EXPECT_EQ(waiter.ask(kAddInit, 8), i64(1));
  EXPECT_EQ(idle.ask(kAddInit, 8), i64(2));
  const base::IpAddress here = *base::IpAddress::parse("127.0.0.1");
  std::optional<TcpStoreClient> at_waiter;
  std::optional<TcpStoreClient> at_idle;
  const auto look = [&] {
    served.on_loop([&] {
      at_waiter = served.server().client_at(here, waiter.port());
      at_idle = served.server().client_at(here, idle.port());
    });
    return at_waiter && at_waiter->wait;
  };
  EXPECT_FALSE(look());
  EXPECT_TRUE(at_idle) << "the index of the first call stays";
  waiter.send(u8(5) + texts({"/never"}));
  EXPECT_EQ(idle.ask(kAddInit, 8), i64(3));
  while (!look()) std::this_thread::yield();
  EXPECT_EQ(at_waiter->wait->key, "/never");
  EXPECT_FALSE(at_idle->wait);
  served.on_loop([&] { EXPECT_FALSE(served.server().client_at(here, served.port())) << "no client has this port"; });
}

}  // namespace
}  // namespace muster::rendezvous::tcp_store_server_test
