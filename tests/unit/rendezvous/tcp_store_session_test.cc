#include "rendezvous/tcp_store_session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "rendezvous/memory_store.h"
#include "tests/unit/rendezvous/torch_wire.h"

namespace muster::rendezvous::tcp_store_session_test {
namespace {

using namespace testing;

// A store and what its clients share.
struct Rig {
  explicit Rig(TorchGeneration hint = TorchGeneration::kA, const TcpStoreLimits& limits = {})
      : hub(&store, hint, limits) {}
  MemoryStore store;
  TcpStoreHub hub;
};

struct Client {
  explicit Client(Rig* rig, const std::string& address = "10.0.0.1")
      : session(&rig->hub, address, [this] { ++told; }) {}

  base::Status send(std::string_view bytes) { return session.receive(bytes); }
  std::string read() {
    std::string bytes(session.output());
    EXPECT_TRUE(session.consume_output(bytes.size()).ok() || !session.failure().ok());
    return bytes;
  }
  std::string ask(std::string_view bytes) {
    const base::Status status = send(bytes);
    EXPECT_TRUE(status.ok()) << status;
    return read();
  }

  int told = 0;
  TcpStoreSession session;
};

struct Exchange {
  std::string request;
  std::string reply;
};

struct Conversation {
  const char* name;
  TorchGeneration hint;
  std::vector<Exchange> exchanges;
};

// Every operation of each generation, as the table of the protocol has it.
std::vector<Conversation> conversations() {
  using enum TorchGeneration;
  return {
      {"A",
       kA,
       {{u8(3) + text("init/") + i64(1), i64(1)},
        {u8(0) + text("/k") + text("v1"), ""},
        {u8(2) + text("/k"), text("v1")},
        {u8(1) + text("/k") + text("v1") + text("v2"), text("v2")},
        {u8(1) + text("/k") + text("v1") + text("v3"), text("v2")},
        {u8(1) + text("/new") + text("") + text("x"), text("x")},
        {u8(1) + text("/no") + text("y") + text("x"), text("y")},
        {u8(3) + text("/n") + i64(40), i64(40)},
        {u8(3) + text("/n") + i64(-42), i64(-2)},
        {u8(2) + text("/n"), text("-2")},
        {u8(4) + texts({"/k", "/n"}), u8(0)},
        {u8(4) + texts({"/k", "/no"}), u8(1)},
        {u8(4) + texts({}), u8(0)},
        {u8(5) + texts({"/k", "/n"}), u8(0)},
        {u8(6), i64(4)}}},
      {"A, callback connection", kA, {{u8(7) + text("/w"), u8(3)}, {u8(7) + text("/x"), u8(3)}}},
      {"B",
       kB,
       {{u8(3) + text("init/") + i64(1), i64(1)},
        {u8(0) + text("/k") + text("v1"), ""},
        {u8(1) + text("/k") + text("v1") + text("v2"), text("v2")},
        {u8(2) + text("/k"), text("v2")},
        {u8(3) + text("/n") + i64(7), i64(7)},
        {u8(4) + texts({"/k"}), u8(0)},
        {u8(5) + texts({"/k"}), u8(0)},
        {u8(6), i64(3)},
        {u8(7) + text("/n"), i64(1)},
        {u8(7) + text("/n"), i64(0)},
        {u8(8) + text("/k") + text("+"), ""},
        {u8(8) + text("/a") + text("first"), ""},
        {u8(9) + texts({"/k", "/a"}), text("v2+") + text("first")},
        {u8(9) + texts({}), ""},
        {u8(10) + i64(2) + text("/x") + text("1") + text("/y") + text(""), ""},
        {u8(9) + texts({"/y", "/x"}), text("") + text("1")},
        {u8(5) + texts({"/missing"}), ""},
        {u8(11), u8(1)},
        {u8(11), u8(1)}}},
      {"C",
       kA,
       {{validate(), ""},
        {u8(13) + u32(0x01020304), u32(0x01020304)},
        {u8(4) + text("init/") + i64(1), i64(1)},
        {u8(1) + text("/k") + text("v1"), ""},
        {u8(2) + text("/k") + text("v1") + text("v2"), text("v2")},
        {u8(2) + text("/no") + text("y") + text("x"), text("y")},
        {u8(3) + text("/k"), text("v2")},
        {u8(3) + text("/no"), text("")},
        {u8(4) + text("/n") + i64(7), i64(7)},
        {u8(5) + texts({"/k"}), u8(0)},
        {u8(5) + texts({"/no"}), u8(1)},
        {u8(6) + texts({"/k", "/n"}), u8(0)},
        {u8(7), i64(3)},
        {u8(8) + text("/n"), i64(1)},
        {u8(8) + text("/n"), i64(0)},
        {u8(9) + text("/k") + text("+"), ""},
        {u8(10) + texts({"/k", "/no"}), text("v2+") + text("")},
        {u8(11) + i64(1) + text("/x") + text("1"), ""},
        {u8(6) + texts({"/missing"}), ""},
        {u8(12), u8(1)},
        {u8(14) + text("/q") + text("one"), ""},
        {u8(14) + text("/q") + text("two"), ""},
        {u8(16) + text("/q"), i64(2)},
        {u8(5) + texts({"/q"}), u8(0)},
        {u8(6) + texts({"/q"}), u8(0)},
        {u8(15) + text("/q"), i64(2) + text("one")},
        {u8(15) + text("/q"), i64(1) + text("two")},
        {u8(15) + text("/q"), i64(0)},
        {u8(16) + text("/q"), i64(0)},
        {u8(5) + texts({"/q"}), u8(1)},
        {u8(8) + text("/x"), i64(1)},
        {u8(8) + text("init/"), i64(1)},
        {u8(17), i64(1) + text("/k")},
        {u8(18) + text("/b") + i64(1), u8(0)},
        {u8(3) + text("/b"), text("1")}}},
  };
}

std::string all_requests(const Conversation& conversation) {
  std::string bytes;
  for (const Exchange& exchange : conversation.exchanges) bytes += exchange.request;
  return bytes;
}

std::string all_replies(const Conversation& conversation) {
  std::string bytes;
  for (const Exchange& exchange : conversation.exchanges) bytes += exchange.reply;
  return bytes;
}

// torch's own store keeps what appends make; one write has 8 MiB at most in both.
TEST(TcpStoreSession, AppendsMayMakeAValueOfMoreThanEightMebibytes) {
  Rig rig;
  Client client(&rig);
  const std::string piece(4 << 20, 'x');
  client.ask(validate());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(client.ask(u8(9) + text("/k") + text(piece)), "");
  EXPECT_EQ(client.ask(u8(3) + text("/k")), text(piece + piece + piece));
}

TEST(TcpStoreSession, EveryOperationOfEachGeneration) {
  for (const Conversation& conversation : conversations()) {
    Rig rig(conversation.hint);
    Client client(&rig);
    int step = 0;
    for (const Exchange& exchange : conversation.exchanges) {
      EXPECT_EQ(client.ask(exchange.request), exchange.reply) << conversation.name << ", request " << ++step;
    }
    EXPECT_EQ(client.told, 0);
  }
}

TEST(TcpStoreSession, PipelinedInOnePiece) {
  for (const Conversation& conversation : conversations()) {
    Rig rig(conversation.hint);
    Client client(&rig);
    EXPECT_EQ(client.ask(all_requests(conversation)), all_replies(conversation)) << conversation.name;
  }
}

TEST(TcpStoreSession, SplitAtEveryByte) {
  for (const Conversation& conversation : conversations()) {
    const std::string requests = all_requests(conversation);
    for (std::size_t split = 0; split <= requests.size(); ++split) {
      Rig rig(conversation.hint);
      Client client(&rig);
      const std::string first = client.ask(requests.substr(0, split));
      ASSERT_EQ(first + client.ask(requests.substr(split)), all_replies(conversation))
          << conversation.name << " at " << split;
    }
  }
}

TEST(TcpStoreSession, ByteByByte) {
  for (const Conversation& conversation : conversations()) {
    Rig rig(conversation.hint);
    Client client(&rig);
    std::string replies;
    for (const char byte : all_requests(conversation)) replies += client.ask({&byte, 1});
    EXPECT_EQ(replies, all_replies(conversation)) << conversation.name;
  }
}

// Torch 1.13's client: a second connection that is silent until the first watched key.
TEST(TcpStoreSession, DeleteAndWatchOfA) {
  Rig rig;
  Client client(&rig);
  Client callback(&rig);
  EXPECT_EQ(client.ask(u8(3) + text("init/") + i64(1)), i64(1));
  EXPECT_EQ(client.ask(u8(8) + text("/w")), i64(0));
  EXPECT_EQ(callback.ask(u8(7) + text("/w")), u8(3));

  EXPECT_EQ(client.ask(u8(0) + text("/w") + text("one")), "");
  EXPECT_EQ(callback.read(), u8(1) + text("/w") + text("") + text("one"));
  EXPECT_EQ(callback.told, 1);
  EXPECT_EQ(client.ask(u8(1) + text("/w") + text("one") + text("2")), text("2"));
  EXPECT_EQ(callback.read(), u8(0) + text("/w") + text("one") + text("2"));
  EXPECT_EQ(client.ask(u8(1) + text("/w") + text("one") + text("3")), text("2"));
  EXPECT_EQ(callback.read(), "");  // nothing was set
  EXPECT_EQ(client.ask(u8(3) + text("/w") + i64(5)), i64(7));
  EXPECT_EQ(callback.read(), u8(0) + text("/w") + text("2") + text("7"));
  EXPECT_EQ(client.ask(u8(8) + text("/w")), i64(1));
  EXPECT_EQ(callback.read(), u8(2) + text("/w") + text("7") + text(""));
  EXPECT_EQ(client.ask(u8(0) + text("/other") + text("1")), "");
  EXPECT_EQ(callback.read(), "");
}

TEST(TcpStoreSession, AWatcherThatLeftIsNotTold) {
  Rig rig;
  Client client(&rig);
  {
    Client callback(&rig);
    EXPECT_EQ(callback.ask(u8(7) + text("/w") + u8(7) + text("/w")), u8(3) + u8(3));
  }
  EXPECT_EQ(client.ask(u8(0) + text("/w") + text("one")), "");
  EXPECT_EQ(rig.store.get("/w"), "one");
}

TEST(TcpStoreSession, WaitIsAnsweredWhenTheLastKeyComes) {
  Rig rig;
  Client waiter(&rig);
  Client setter(&rig);
  EXPECT_EQ(waiter.ask(u8(5) + texts({"/a", "/b", "/a"})), "");
  EXPECT_EQ(setter.ask(u8(0) + text("/a") + text("")), "");
  EXPECT_EQ(waiter.read(), "");
  EXPECT_EQ(setter.ask(u8(3) + text("/b") + i64(1)), i64(1));
  EXPECT_EQ(waiter.told, 1);
  EXPECT_EQ(waiter.read(), u8(0));
  EXPECT_EQ(setter.ask(u8(0) + text("/a") + text("")), "");
  EXPECT_EQ(waiter.read(), "");
}

TEST(TcpStoreSession, ADeferredReplyDoesNotHoldOthersBack) {
  Rig rig;
  Client client(&rig);
  EXPECT_EQ(client.ask(u8(5) + texts({"/a"}) + u8(6) + u8(5) + texts({"/b"})), i64(0));
  EXPECT_EQ(client.ask(u8(0) + text("/b") + text("") + u8(6)), u8(0) + i64(1));
  EXPECT_EQ(client.ask(u8(0) + text("/a") + text("") + u8(6)), u8(0) + i64(2));
}

TEST(TcpStoreSession, CancelWaitEndsTheWaitOrCrossesItsEnd) {
  Rig rig(TorchGeneration::kB);
  Client waiter(&rig);
  Client setter(&rig);
  EXPECT_EQ(waiter.ask(u8(5) + texts({"/a"}) + u8(11)), u8(1));
  EXPECT_EQ(setter.ask(u8(0) + text("/a") + text("")), "");
  EXPECT_EQ(waiter.read(), "");

  EXPECT_EQ(waiter.ask(u8(5) + texts({"/b"})), "");
  EXPECT_EQ(setter.ask(u8(0) + text("/b") + text("")), "");
  EXPECT_EQ(waiter.ask(u8(11)), u8(0) + u8(1));  // the end of the wait was under way
}

TEST(TcpStoreSession, AWaiterThatLeftIsForgotten) {
  Rig rig;
  {
    Client waiter(&rig);
    EXPECT_EQ(waiter.ask(u8(5) + texts({"/a", "/b"})), "");
    EXPECT_GT(rig.hub.total_bytes(), 0u);
  }
  EXPECT_EQ(rig.hub.total_bytes(), 0u);
  ASSERT_TRUE(rig.store.set("/a", "").ok());
  ASSERT_TRUE(rig.store.set("/b", "").ok());
}

TEST(TcpStoreSession, QueuePushEndsOneWait) {
  Rig rig;
  Client first(&rig);
  Client second(&rig);
  Client pusher(&rig);
  EXPECT_EQ(first.ask(validate() + u8(6) + texts({"/q"})), "");
  EXPECT_EQ(second.ask(validate() + u8(6) + texts({"/q"})), "");
  EXPECT_EQ(pusher.ask(validate() + u8(14) + text("/q") + text("x")), "");
  EXPECT_EQ(first.read(), u8(0));
  EXPECT_EQ(second.read(), "");
  EXPECT_EQ(first.ask(u8(15) + text("/q")), i64(1) + text("x"));
  EXPECT_EQ(pusher.ask(u8(14) + text("/q") + text("y")), "");
  EXPECT_EQ(second.read(), u8(0));
}

TEST(TcpStoreSession, BarrierReleasesAll) {
  Rig rig;
  Client ranks[3] = {Client(&rig), Client(&rig), Client(&rig)};
  EXPECT_EQ(ranks[0].ask(validate() + u8(18) + text("/b") + i64(3)), "");
  EXPECT_EQ(ranks[1].ask(validate() + u8(18) + text("/b") + i64(3)), "");
  EXPECT_EQ(ranks[0].read(), "");
  EXPECT_EQ(ranks[2].ask(validate() + u8(18) + text("/b") + i64(3)), u8(0));
  EXPECT_EQ(ranks[0].read(), u8(0));
  EXPECT_EQ(ranks[1].read(), u8(0));
  EXPECT_EQ(rig.store.get("/b"), "3");
}

TEST(TcpStoreSession, BarrierCancelledOrLeftStillCounts) {
  Rig rig;
  Client first(&rig);
  Client last(&rig);
  {
    Client left(&rig);
    EXPECT_EQ(left.ask(validate() + u8(18) + text("/b") + i64(3)), "");
  }
  EXPECT_EQ(first.ask(validate() + u8(18) + text("/b") + i64(3) + u8(12)), u8(1));
  EXPECT_EQ(last.ask(validate() + u8(18) + text("/b") + i64(3)), u8(0));
  EXPECT_EQ(first.read(), "");
}

TEST(TcpStoreSession, WhatTheProtocolCannotAnswerEndsTheConnection) {
  const struct {
    const char* what;
    TorchGeneration hint;
    std::string request;
    base::Code code;
  } cases[] = {
      {"ADD to what is no number", TorchGeneration::kA, u8(3) + text("/s") + i64(1), base::Code::kInvalidArgument},
      {"ADD beyond 64 bits", TorchGeneration::kA, u8(3) + text("/max") + i64(1), base::Code::kOutOfRange},
      {"GET of a missing key in A", TorchGeneration::kA, u8(2) + text("/no"), base::Code::kNotFound},
      {"MULTI_GET of a missing key in B", TorchGeneration::kB, u8(9) + texts({"/no"}), base::Code::kNotFound},
      {"code 12 in B", TorchGeneration::kB, u8(12), base::Code::kInvalidArgument},
      {"code 19 in C", TorchGeneration::kA, validate() + u8(19), base::Code::kInvalidArgument},
      {"VALIDATE again", TorchGeneration::kA, validate() + validate(), base::Code::kInvalidArgument},
      {"a key too long", TorchGeneration::kA, u8(0) + u64((8 << 10) + 1), base::Code::kInvalidArgument},
      {"a value too long", TorchGeneration::kA, u8(0) + text("k") + u64((8 << 20) + 1), base::Code::kInvalidArgument},
      {"too many keys", TorchGeneration::kA, u8(4) + u64((128 << 10) + 1), base::Code::kInvalidArgument},
  };
  for (const auto& one : cases) {
    Rig rig(one.hint);
    ASSERT_TRUE(rig.store.set("/s", "12x").ok());
    ASSERT_TRUE(rig.store.set("/max", "9223372036854775807").ok());
    Client client(&rig);
    EXPECT_EQ(client.send(one.request).code(), one.code) << one.what;
    EXPECT_FALSE(client.session.wants_input()) << one.what;
    EXPECT_EQ(client.send(u8(6)).code(), one.code) << one.what;
    EXPECT_EQ(client.read(), "") << one.what;
  }
}

TEST(TcpStoreSession, RepliesBeforeAnErrorAreKept) {
  Rig rig;
  Client client(&rig);
  EXPECT_FALSE(client.send(u8(6) + u8(99)).ok());
  EXPECT_EQ(client.read(), i64(0));
}

TEST(TcpStoreSession, AnUnreadClientIsHeldBackAndServedLater) {
  TcpStoreLimits limits;
  limits.unread_bytes = 1000;
  Rig rig(TorchGeneration::kA, limits);
  Client client(&rig);
  std::string requests = u8(0) + text("k") + text(std::string(92, 'v'));
  for (int i = 0; i < 100; ++i) requests += u8(2) + text("k");
  ASSERT_TRUE(client.send(requests).ok());
  EXPECT_EQ(client.session.output().size(), 1000u);
  EXPECT_FALSE(client.session.wants_input());
  std::size_t read = 0;
  while (!client.session.output().empty()) {
    EXPECT_LT(client.session.output().size(), 1000u + 100u);  // one reply more
    const std::size_t size = std::min<std::size_t>(70, client.session.output().size());
    ASSERT_TRUE(client.session.consume_output(size).ok());
    read += size;
  }
  EXPECT_EQ(read, 100u * 100u);
  EXPECT_TRUE(client.session.wants_input());
  EXPECT_EQ(client.ask(u8(6)), i64(1));
}

TEST(TcpStoreSession, MemoryOfLargeMessagesIsGivenBack) {
  Rig rig;
  Client client(&rig);
  const std::string value(4 << 20, 'v');
  const std::string request = u8(0) + text("k") + text(value);
  EXPECT_EQ(client.ask(request.substr(0, 1 << 20)), "");
  EXPECT_GT(rig.hub.total_bytes(), 1u << 20);
  EXPECT_EQ(client.ask(request.substr(1 << 20)), "");
  EXPECT_LT(rig.hub.total_bytes(), 1u << 10);
  EXPECT_EQ(client.ask(u8(2) + text("k")), text(value));
  EXPECT_LT(rig.hub.total_bytes(), 1u << 10);
}

TEST(TcpStoreSession, RepliesAndEventsAreBounded) {
  TcpStoreLimits limits;
  limits.max_reply_bytes = 250;
  Rig rig(TorchGeneration::kB, limits);
  ASSERT_TRUE(rig.store.set("k", std::string(100, 'v')).ok());
  Client reader(&rig);
  EXPECT_EQ(reader.ask(u8(9) + texts({"k", "k"})).size(), 216u);
  EXPECT_EQ(reader.send(u8(9) + texts({"k", "k", "k"})).code(), base::Code::kResourceExhausted);

  Rig watched(TorchGeneration::kA, limits);
  Client setter(&watched);
  Client watcher(&watched);
  EXPECT_EQ(watcher.ask(u8(7) + text("w")), u8(3));
  EXPECT_EQ(setter.ask(u8(0) + text("w") + text(std::string(100, 'v'))), "");
  EXPECT_TRUE(watcher.session.failure().ok());
  EXPECT_EQ(setter.ask(u8(0) + text("w") + text(std::string(100, 'v'))), "");
  EXPECT_EQ(watcher.session.failure().code(), base::Code::kResourceExhausted);
  EXPECT_EQ(watcher.told, 2);
  EXPECT_TRUE(setter.session.failure().ok());
}

TEST(TcpStoreSession, ItsOwnEventsAreBounded) {
  TcpStoreLimits limits;
  limits.max_reply_bytes = 250;
  Rig rig(TorchGeneration::kA, limits);
  Client client(&rig);
  const std::string set = u8(0) + text("w") + text(std::string(100, 'v'));
  EXPECT_EQ(client.ask(u8(7) + text("w")), u8(3));
  EXPECT_EQ(client.send(set + set).code(), base::Code::kResourceExhausted);
  EXPECT_FALSE(client.session.wants_input());
}

TEST(TcpStoreSession, ListKeysIsBounded) {
  TcpStoreLimits limits;
  limits.max_reply_bytes = 40;
  Rig rig(TorchGeneration::kA, limits);
  ASSERT_TRUE(rig.store.set("0123456789", "").ok());
  Client client(&rig);
  EXPECT_EQ(client.ask(validate() + u8(17)), i64(1) + text("0123456789"));
  ASSERT_TRUE(rig.store.set("abcdefghij", "").ok());
  EXPECT_EQ(client.send(u8(17)).code(), base::Code::kResourceExhausted);
}

TEST(TcpStoreSession, WaitsAndWatchesAreBounded) {
  TcpStoreLimits limits;
  limits.max_waits = 2;
  limits.max_watches = 2;
  Rig rig(TorchGeneration::kA, limits);
  Client waiter(&rig);
  EXPECT_EQ(waiter.ask(validate() + u8(6) + texts({"/a"}) + u8(18) + text("/b") + i64(2)), "");
  EXPECT_EQ(waiter.send(u8(6) + texts({"/c"})).code(), base::Code::kResourceExhausted);
  Client watcher(&rig);
  EXPECT_EQ(watcher.ask(u8(7) + text("/a") + u8(7) + text("/b")), u8(3) + u8(3));
  EXPECT_EQ(watcher.send(u8(7) + text("/c")).code(), base::Code::kResourceExhausted);
}

TEST(TcpStoreSession, AllTogetherAreBounded) {
  TcpStoreLimits limits;
  limits.max_total_bytes = 1 << 20;
  Rig rig(TorchGeneration::kA, limits);
  auto first = std::make_unique<Client>(&rig);
  Client second(&rig);
  const std::string half = u8(0) + text("k") + u64(2 << 20) + std::string(600 << 10, 'x');
  EXPECT_TRUE(first->send(half).ok());
  EXPECT_EQ(second.send(half).code(), base::Code::kResourceExhausted);
  first.reset();
  Client third(&rig);
  EXPECT_EQ(third.ask(u8(6)), i64(0));
}

TEST(TcpStoreSession, TheStoresOwnLimitsEndTheConnection) {
  MemoryStore store({.max_keys = 1});
  TcpStoreHub hub(&store, TorchGeneration::kA, {});
  TcpStoreSession session(&hub, "10.0.0.1", [] {});
  EXPECT_TRUE(session.receive(u8(0) + text("a") + text("")).ok());
  EXPECT_EQ(session.receive(u8(0) + text("b") + text("")).code(), base::Code::kResourceExhausted);
  EXPECT_EQ(store.size(), 1u);
}

TEST(TcpStoreSession, KnowsItsOldestWait) {
  Rig rig;
  Client client(&rig);
  ASSERT_EQ(client.ask(u8(3) + text("init/") + i64(1)), i64(1));
  EXPECT_FALSE(client.session.oldest_wait());
  const auto begin = base::monotonic_now();
  EXPECT_EQ(client.ask(u8(5) + texts({"/there", "/a", "/b"})), "");
  ASSERT_TRUE(rig.store.set("/there", "").ok());
  const auto wait = client.session.oldest_wait();
  ASSERT_TRUE(wait);
  EXPECT_EQ(wait->key, "/a");
  EXPECT_EQ(wait->others, 1U);
  EXPECT_FALSE(wait->is_barrier);
  EXPECT_GE(wait->since, begin);
  ASSERT_TRUE(rig.store.set("/a", "").ok() && rig.store.set("/b", "").ok());
  EXPECT_FALSE(client.session.oldest_wait());
}

}  // namespace
}  // namespace muster::rendezvous::tcp_store_session_test
