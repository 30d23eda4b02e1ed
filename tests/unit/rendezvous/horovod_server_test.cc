#include "rendezvous/horovod_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "rendezvous/horovod_store.h"
#include "tests/unit/rendezvous/loop_peer.h"

namespace muster::rendezvous::horovod_server_test {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view kEmptyOk = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
constexpr std::string_view kNotFound = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";

void allow(const ConnectionEnds&, const std::function<void(bool)>& done) {
  done(true);
}

// As the client of horovod 0.28.1 writes them.
std::string request(std::string_view verb, std::string_view path, std::string_view body = "") {
  return fmt::format("{} {} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {}\r\n\r\n{}", verb, path, body.size(),
                     body);
}

std::string ok(std::string_view body) {
  return fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", body.size(), body);
}

class HorovodServerTest : public ::testing::Test {
 protected:
  void serve(HorovodServerLimits limits = {}, OwnerCheck check = allow, HorovodKeys* keys = nullptr) {
    base::UniqueFd listening = base::listen_any(0, 8).value();
    port_ = base::local_port(listening.get()).value();
    server_ = std::make_unique<HorovodServer>(loop_, std::move(listening), keys == nullptr ? keys_ : *keys,
                                              std::move(check), limits);
  }

  // The reply to `bytes` on a connection of their own, which stays open; what came, if it is not `expected`.
  std::string converse(std::string_view bytes, std::string_view expected) {
    LoopPeer peer(loop_, port_);
    EXPECT_TRUE(peer.send(bytes));
    run_until(
        loop_, [&] { return peer.received().size() >= expected.size() || peer.is_closed(); }, 5s);
    EXPECT_FALSE(peer.is_closed()) << "the client closes, not the server";
    return peer.received();
  }

  base::Loop loop_;
  HorovodStore store_{{{{"global", 2}}}, {.max_key_bytes = 64, .max_value_bytes = 1 << 20, .max_keys = 8}};
  HorovodStoreKeys keys_{store_};
  std::unique_ptr<HorovodServer> server_;
  std::uint16_t port_ = 0;
};

TEST_F(HorovodServerTest, ConversationsOfTheClientByteForByte) {
  serve();
  const std::string binary("\0\r\n\xff value", 10);
  const std::pair<std::string, std::string> table[] = {
      {request("GET", "/global/rank_0"), std::string(kNotFound)},
      {request("PUT", "/global/rank_0", "host-1.example"), std::string(kEmptyOk)},
      {request("GET", "/global/rank_0"), ok("host-1.example")},
      {request("PUT", "/global/0", binary), std::string(kEmptyOk)},
      {request("GET", "/global/0"), ok(binary)},
      {request("PUT", "/global/0", ""), std::string(kEmptyOk)},
      {request("GET", "/global/0"), ok("")},
      {request("PUT", "/local_n-1.example/0", "x"), std::string(kEmptyOk)},
      {request("GET", "/local_n-1.example/0"), ok("x")},
      {request("PUT", "/worker_addresses/n1:0", "a"), std::string(kEmptyOk)},
      {request("GET", "/worker_addresses/n1:0"), ok("a")},
      {request("DELETE", "/worker_addresses/n1:0"), std::string(kEmptyOk)},
      {request("GET", "/worker_addresses/n1:0"), std::string(kNotFound)},
      {request("DELETE", "/nothing/0"), std::string(kEmptyOk)},
      {request("DELETE", "/global/0"), std::string(kEmptyOk)},
      {request("GET", "/global/0"), ok("")},
      {request("DELETE", "/global/1"), std::string(kEmptyOk)},
      {request("GET", "/global/0"), std::string(kNotFound)},
      {request("GET", "/global/rank_0"), std::string(kNotFound)},
      {request("GET", "/local_n-1.example/0"), ok("x")},
  };
  for (const auto& [sent, expected] : table) EXPECT_EQ(converse(sent, expected), expected) << sent;
  EXPECT_EQ(server_->counts().requests, std::size(table));
  EXPECT_EQ(server_->counts().refused, 0u);
}

// A client that got no status asks again, three times in all.
TEST_F(HorovodServerTest, ARequestWhoseReplyWasLostMayComeAgain) {
  serve();
  const auto ask_three_times = [&](const std::string& sent) {
    for (int lost = 0; lost < 2; ++lost) {
      const auto before = server_->counts().requests;
      LoopPeer peer(loop_, port_);
      ASSERT_TRUE(peer.send(sent));
      ASSERT_TRUE(run_until(loop_, [&] { return server_->counts().requests == before + 1; }));
    }
    EXPECT_EQ(converse(sent, kEmptyOk), kEmptyOk);
  };
  ask_three_times(request("PUT", "/global/0", "value"));
  EXPECT_EQ(converse(request("GET", "/global/0"), ok("value")), ok("value"));
  ask_three_times(request("DELETE", "/global/0"));  // rank 0 has finished, once: the scope has two ranks
  EXPECT_EQ(converse(request("GET", "/global/0"), ok("value")), ok("value"));
  EXPECT_EQ(converse(request("DELETE", "/global/1"), kEmptyOk), kEmptyOk);
  EXPECT_EQ(converse(request("GET", "/global/0"), kNotFound), kNotFound);
}

TEST_F(HorovodServerTest, ReplyComesInOneWrite) {
  serve();
  const std::string value(10'000, 'v');
  EXPECT_EQ(converse(request("PUT", "/s/k", value), kEmptyOk), kEmptyOk);
  LoopPeer peer(loop_, port_);
  ASSERT_TRUE(peer.send(request("GET", "/s/k")));
  ASSERT_TRUE(run_until(loop_, [&] { return !peer.reads().empty(); }));
  EXPECT_EQ(peer.reads().front(), ok(value).size()) << "a client that sees the head alone may cut the body";
}

// The keys of a job whose ranks change.
class NumberedKeys final : public HorovodKeys {
 public:
  void put(std::string_view, std::string_view, HorovodValue, Done done) override { done(base::ok_status()); }
  void get(std::string_view, std::string_view key, GetDone done) override {
    done(key == "none" ? nullptr : make_horovod_value("0,1"));
  }
  WaitId wait(std::string_view, std::string_view, GetDone) override { return 0; }
  void cancel_wait(WaitId) override {}
  void finish(std::string_view, std::string_view, Done done) override { done(base::ok_status()); }
  std::optional<int> generation() const override { return 3; }
};

TEST_F(HorovodServerTest, NumbersComeWithTheirGeneration) {
  NumberedKeys keys;
  serve({}, allow, &keys);
  const std::string numbers = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nMuster-Generation: 3\r\n\r\n0,1";
  EXPECT_EQ(converse(request("GET", "/rank_and_size/n1:0"), numbers), numbers);
  EXPECT_EQ(converse(request("GET", "/rank_and_size/none"), kNotFound), kNotFound);
  EXPECT_EQ(converse(request("GET", "/s/k"), ok("0,1")), ok("0,1"));
  EXPECT_EQ(converse(request("PUT", "/rank_and_size/n1:0", "x"), kEmptyOk), kEmptyOk);
}

TEST_F(HorovodServerTest, SaysNothingBeforeTheWholeRequestIsThere) {
  serve();
  LoopPeer peer(loop_, port_);
  const std::string all = "PUT /s/k HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc";
  for (const char& byte : all) {
    EXPECT_EQ(peer.received(), "");
    ASSERT_TRUE(peer.send({&byte, 1}));
    run_for(loop_, 1ms);
  }
  ASSERT_TRUE(run_until(loop_, [&] { return !peer.received().empty(); }));
  EXPECT_EQ(peer.received(), kEmptyOk);
}

TEST_F(HorovodServerTest, ConnectionServesMoreThanOneRequest) {
  serve();
  LoopPeer peer(loop_, port_);
  ASSERT_TRUE(peer.send(request("PUT", "/s/k", "1") + request("GET", "/s/k") + request("GET", "/s/l")));
  const std::string expected = std::string(kEmptyOk) + ok("1") + std::string(kNotFound);
  ASSERT_TRUE(run_until(loop_, [&] { return peer.received().size() >= expected.size(); }));
  EXPECT_EQ(peer.received(), expected);
  ASSERT_TRUE(peer.send(request("GET", "/s/k")));
  ASSERT_TRUE(run_until(loop_, [&] { return peer.received().size() > expected.size(); }));
  EXPECT_EQ(peer.received(), expected + ok("1"));
  peer.finish_sending();
  ASSERT_TRUE(run_until(loop_, [&] { return peer.is_closed(); }));
  EXPECT_EQ(server_->counts().connections, 0u);
}

TEST_F(HorovodServerTest, RefusesAndCloses) {
  HorovodServerLimits limits;
  limits.request = {.max_head_bytes = 512, .max_body_bytes = 1 << 10};
  serve(limits);
  const std::pair<std::string, std::string> table[] = {
      {"\x16\x03\x01\x02 junk", "400 Bad Request"},
      {"SSH-2.0-OpenSSH_9.2\r\n\r\n", "400 Bad Request"},
      {request("GET", "/global"), "400 Bad Request"},
      {request("DELETE", "/global/0/1"), "400 Bad Request"},
      {request("POST", "/s/k"), "405 Method Not Allowed"},
      {"PUT /s/k HTTP/1.1\r\n\r\n", "411 Length Required"},
      {request("PUT", "/s/k", std::string(2000, 'x')), "413 Payload Too Large"},
      {request("PUT", "/s/" + std::string(80, 'k'), "x"), "413 Payload Too Large"},
      {"GET /s/k HTTP/1.1\r\nX: " + std::string(600, 'x'), "431 Request Header Fields Too Large"},
  };
  for (const auto& [sent, status] : table) {
    LoopPeer peer(loop_, port_);
    ASSERT_TRUE(peer.send(sent));
    ASSERT_TRUE(run_until(loop_, [&] { return peer.is_closed(); })) << sent;
    EXPECT_EQ(peer.received(), "HTTP/1.1 " + status + "\r\nContent-Length: 0\r\n\r\n");
  }
  EXPECT_EQ(store_.size(), 0u);
  EXPECT_EQ(server_->counts().refused, std::size(table));
}

TEST_F(HorovodServerTest, FullStoreIs507) {
  serve();
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(converse(request("PUT", fmt::format("/s/{}", i), "x"), kEmptyOk), kEmptyOk);
  }
  LoopPeer peer(loop_, port_);
  ASSERT_TRUE(peer.send(request("PUT", "/s/8", "x")));
  ASSERT_TRUE(run_until(loop_, [&] { return peer.is_closed(); }));
  EXPECT_EQ(peer.received(), "HTTP/1.1 507 Insufficient Storage\r\nContent-Length: 0\r\n\r\n");
}

TEST_F(HorovodServerTest, BodiesUnderWayTogetherAreBounded) {
  HorovodServerLimits limits;
  limits.max_body_bytes = 1000;
  serve(limits);
  LoopPeer first(loop_, port_);
  ASSERT_TRUE(first.send("PUT /s/a HTTP/1.1\r\nContent-Length: 900\r\n\r\n" + std::string(899, 'a')));
  run_for(loop_, 20ms);
  LoopPeer second(loop_, port_);
  ASSERT_TRUE(second.send("PUT /s/b HTTP/1.1\r\nContent-Length: 200\r\n\r\n"));
  ASSERT_TRUE(run_until(loop_, [&] { return second.is_closed(); }));
  EXPECT_EQ(second.received(), "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n");
  ASSERT_TRUE(first.send("a"));
  ASSERT_TRUE(run_until(loop_, [&] { return !first.received().empty(); }));
  EXPECT_EQ(first.received(), kEmptyOk);
  const std::string again(200, 'b');
  EXPECT_EQ(converse(request("PUT", "/s/b", again), kEmptyOk), kEmptyOk) << "what was answered is held no more";
}

TEST_F(HorovodServerTest, OwnerIsAskedBeforeAByteIsRead) {
  std::optional<ConnectionEnds> asked;
  std::function<void(bool)> answer;
  serve({}, [&](const ConnectionEnds& ends, std::function<void(bool)> done) {
    asked = ends;
    answer = std::move(done);
  });
  LoopPeer peer(loop_, port_);
  ASSERT_TRUE(peer.send(request("PUT", "/s/k", "x")));
  ASSERT_TRUE(run_until(loop_, [&] { return asked.has_value(); }));
  run_for(loop_, 20ms);
  EXPECT_EQ(store_.size(), 0u);
  EXPECT_EQ(asked->peer, loopback());
  EXPECT_EQ(asked->peer_port, peer.port());
  EXPECT_EQ(asked->local, loopback());
  EXPECT_EQ(asked->local_port, port_);
  answer(true);
  ASSERT_TRUE(run_until(loop_, [&] { return !peer.received().empty(); }));
  EXPECT_EQ(peer.received(), kEmptyOk);
}

TEST_F(HorovodServerTest, AnotherOwnerGetsNothing) {
  serve({}, [](const ConnectionEnds&, const std::function<void(bool)>& done) { done(false); });
  ASSERT_TRUE(store_.put("s", "k", make_horovod_value("secret")).ok());
  LoopPeer reader(loop_, port_);
  LoopPeer writer(loop_, port_);
  ASSERT_TRUE(reader.send(request("GET", "/s/k")));
  ASSERT_TRUE(writer.send(request("PUT", "/s/k", "planted")));
  ASSERT_TRUE(run_until(loop_, [&] { return reader.is_closed() && writer.is_closed(); }));
  EXPECT_EQ(reader.received() + writer.received(), "");
  EXPECT_EQ(*store_.get("s", "k"), "secret");
  EXPECT_EQ(server_->counts().connections, 0u);
}

TEST_F(HorovodServerTest, SlowAndHalfOpenClientsEndAndHarmNobody) {
  HorovodServerLimits limits;
  limits.time_limit = 100ms;
  serve(limits);
  LoopPeer silent(loop_, port_);
  LoopPeer half(loop_, port_);
  ASSERT_TRUE(half.send("PUT /s/k HTTP/1.1\r\nContent-Length: 10\r\n\r\nabc"));
  LoopPeer trickle(loop_, port_);
  const auto drop = loop_.every(10ms, [&] { (void)trickle.send("G"); });
  for (int i = 0; i < 20; ++i) EXPECT_EQ(converse(request("GET", "/s/k"), kNotFound), kNotFound);
  ASSERT_TRUE(run_until(loop_, [&] { return silent.is_closed() && half.is_closed() && trickle.is_closed(); }));
  EXPECT_EQ(silent.received() + half.received() + trickle.received(), "");
  EXPECT_GE(server_->counts().expired, 3u);
  ASSERT_TRUE(run_until(loop_, [&] { return server_->counts().connections == 0; }));
}

TEST_F(HorovodServerTest, ClientThatTakesNoReplyIsClosed) {
  HorovodServerLimits limits;
  limits.time_limit = 100ms;
  serve(limits);
  ASSERT_TRUE(store_.put("s", "k", make_horovod_value(std::string(1 << 20, 'v'))).ok());
  LoopPeer greedy(loop_, port_);
  greedy.stop_reading();
  std::string many;
  for (int i = 0; i < 64; ++i) many += request("GET", "/s/k");
  ASSERT_TRUE(greedy.send(many));
  EXPECT_EQ(converse(request("GET", "/s/none"), kNotFound), kNotFound);
  ASSERT_TRUE(run_until(loop_, [&] { return server_->counts().expired == 1; }));
  ASSERT_TRUE(run_until(loop_, [&] { return server_->counts().connections <= 1; }));
}

TEST_F(HorovodServerTest, OldestSilentConnectionMakesRoom) {
  HorovodServerLimits limits;
  limits.max_connections = 3;
  serve(limits);
  LoopPeer oldest(loop_, port_);
  LoopPeer second(loop_, port_);
  ASSERT_TRUE(second.send(request("GET", "/s/k")));
  LoopPeer third(loop_, port_);
  ASSERT_TRUE(run_until(loop_, [&] { return server_->counts().connections == 3 && !second.received().empty(); }));
  LoopPeer fourth(loop_, port_);
  ASSERT_TRUE(fourth.send(request("GET", "/s/k")));
  ASSERT_TRUE(run_until(loop_, [&] { return oldest.is_closed() && !fourth.received().empty(); }));
  EXPECT_FALSE(second.is_closed() || third.is_closed());
  EXPECT_EQ(server_->counts().made_room, 1u);
  EXPECT_EQ(server_->counts().connections, 3u);
}

// Keys that answer when the test says so.
class HeldKeys final : public HorovodKeys {
 public:
  void put(std::string_view, std::string_view, HorovodValue, Done done) override { dones.push_back(std::move(done)); }
  void get(std::string_view, std::string_view, GetDone done) override { gets.push_back(std::move(done)); }
  WaitId wait(std::string_view, std::string_view, GetDone done) override {
    gets.push_back(std::move(done));
    return gets.size();
  }
  void cancel_wait(WaitId) override {}
  void finish(std::string_view, std::string_view, Done done) override { dones.push_back(std::move(done)); }

  std::vector<Done> dones;
  std::vector<GetDone> gets;
};

TEST_F(HorovodServerTest, HeldAnswersHaveNoTimeLimitAndMayComeTooLate) {
  HeldKeys held;
  HorovodServerLimits limits;
  limits.time_limit = 50ms;
  serve(limits, allow, &held);
  LoopPeer put(loop_, port_);
  LoopPeer get(loop_, port_);
  LoopPeer lost(loop_, port_);
  ASSERT_TRUE(put.send(request("PUT", "/s/k", "x")) && get.send(request("GET", "/s/k")) &&
              lost.send(request("DELETE", "/s/k")));
  ASSERT_TRUE(run_until(loop_, [&] { return held.dones.size() == 2 && held.gets.size() == 1; }));
  run_for(loop_, 150ms);
  EXPECT_FALSE(put.is_closed() || get.is_closed());
  held.gets[0](make_horovod_value("v"));
  ASSERT_TRUE(run_until(loop_, [&] { return !get.received().empty(); }));
  EXPECT_EQ(get.received(), ok("v"));
  held.dones[0](base::error(base::Code::kUnavailable, "rank 0's host is gone"));
  ASSERT_TRUE(run_until(loop_, [&] { return !put.received().empty() || !lost.received().empty(); }));
  EXPECT_EQ(put.received() + lost.received(), "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n");
  server_.reset();
  held.dones[1](base::ok_status());
  ASSERT_TRUE(run_until(loop_, [&] { return lost.is_closed() && put.is_closed(); }));
}

TEST_F(HorovodServerTest, ListeningEndsWithTheServer) {
  serve();
  LoopPeer open(loop_, port_);
  run_for(loop_, 10ms);
  server_.reset();
  ASSERT_TRUE(run_until(loop_, [&] { return open.is_closed(); }));
  EXPECT_FALSE(LoopPeer(loop_, port_).is_connected());
}

TEST_F(HorovodServerTest, AWatchSeesKeysThatDoNotExist) {
  serve();
  ASSERT_TRUE(store_.put("global", "0", make_horovod_value("x")).ok());
  std::vector<std::string> missing;
  server_->watch_missing([&](const ConnectionEnds& ends, std::string_view scope, std::string_view key) {
    EXPECT_EQ(ends.local_port, port_);
    missing.push_back(fmt::format("{}/{}", scope, key));
  });
  EXPECT_EQ(converse(request("GET", "/global/0"), ok("x")), ok("x"));
  EXPECT_EQ(converse(request("GET", "/global/1"), kNotFound), kNotFound);
  EXPECT_EQ(missing, std::vector<std::string>{"global/1"});
  server_->watch_missing({});
  EXPECT_EQ(converse(request("GET", "/global/2"), kNotFound), kNotFound);
  EXPECT_EQ(missing.size(), 1U) << "the watch has ended";
}

}  // namespace
}  // namespace muster::rendezvous::horovod_server_test
