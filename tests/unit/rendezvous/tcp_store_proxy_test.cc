// Clients of torch's TCPStore that reach it by a proxy and two links of a tree.
#include "rendezvous/tcp_store_proxy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rendezvous/local_owner.h"
#include "rendezvous/memory_store.h"
#include "tests/unit/rendezvous/loop_peer.h"
#include "tests/unit/rendezvous/proxied_store.h"
#include "tests/unit/rendezvous/torch_wire.h"

namespace muster::rendezvous::tcp_store_proxy_test {
namespace {

using ::testing::HasSubstr;
using namespace testing;

void allow(const ConnectionEnds&, const std::function<void(bool)>& done) {
  done(true);
}

class TcpStoreProxyTest : public ::testing::Test {
 protected:
  TcpStoreProxyTest() {
    base::UniqueFd listening = base::listen_any(0, 8).value();
    TcpStoreServerConfig config;
    config.owner_check = allow;
    server_ = TcpStoreServer::start(&loop_, std::move(listening), &store_, std::move(config)).value();
  }

  void serve(const OwnerCheck& check = allow, int links = 2) {
    proxied_ = std::make_unique<ProxiedStore>(loop_, server_->hub(), check, links,
                                              [this](const base::Status& why) { problems_.push_back(why.message()); });
  }
  std::string ask(LoopPeer& peer, const std::string& request, std::size_t size) {
    const std::size_t before = peer.received().size();
    EXPECT_TRUE(peer.send(request));
    EXPECT_TRUE(run_until(loop_, [&] { return peer.received().size() >= before + size; }));
    return peer.received().substr(before);
  }

  base::Loop loop_;
  MemoryStore store_;
  std::unique_ptr<TcpStoreServer> server_;
  std::vector<std::string> problems_;
  std::unique_ptr<ProxiedStore> proxied_;
};

TEST_F(TcpStoreProxyTest, ManyClientsShareOneLink) {
  serve();
  std::vector<std::unique_ptr<LoopPeer>> clients;
  for (int i = 0; i < 20; ++i) clients.push_back(std::make_unique<LoopPeer>(loop_, proxied_->port()));
  for (int i = 0; i < 20; ++i) {
    const std::string sum = ask(*clients[static_cast<std::size_t>(i)], validate() + u8(4) + text("n") + i64(1), 8);
    EXPECT_EQ(sum, i64(i + 1));
  }
  EXPECT_EQ(proxied_->origin().counts().links, 1U);
  EXPECT_EQ(proxied_->streams(), 20U);
  clients.resize(5);
  ASSERT_TRUE(run_until(loop_, [&] { return proxied_->streams() == 5; })) << "closed with their clients";
  EXPECT_EQ(proxied_->clients(), 5U);
}

TEST_F(TcpStoreProxyTest, AnOverwrittenKeyIsNeverRead) {
  serve();
  LoopPeer one(loop_, proxied_->port());
  LoopPeer two(loop_, proxied_->port());
  for (int i = 0; i < 50; ++i) {
    const std::string value = std::to_string(i % 10);
    // The count answers after the set is done.
    const std::string greeting = i == 0 ? validate() : "";
    ask(one, greeting + u8(1) + text("k") + text(value) + u8(7), 8);
    EXPECT_EQ(ask(two, greeting + u8(3) + text("k"), 9), text(value));
  }
}

TEST_F(TcpStoreProxyTest, AWaitIsTheStores) {
  serve();
  LoopPeer waiting(loop_, proxied_->port());
  auto killed = std::make_unique<LoopPeer>(loop_, proxied_->port());
  ASSERT_TRUE(waiting.send(validate() + u8(6) + texts({"k"})));
  ASSERT_TRUE(killed->send(validate() + u8(6) + texts({"k"})));
  ASSERT_TRUE(run_until(loop_, [&] { return proxied_->streams() == 2; }));
  // What a client waits for is known on its own host, through all links.
  std::string what;
  const auto note = [&](const std::optional<StreamWait>& wait) { what = wait ? wait->what : "nothing"; };
  const ConnectionEnds ends{.peer = loopback(), .peer_port = waiting.port(), .local = loopback(), .local_port = 1};
  ASSERT_TRUE(run_until(loop_, [&] {
    EXPECT_TRUE(proxied_->ask_wait(ends, note));
    return what.starts_with("the key");
  }));
  EXPECT_EQ(what, "the key \"k\" in torch's store");
  EXPECT_FALSE(proxied_->ask_wait({.peer = loopback(), .peer_port = 1, .local = loopback(), .local_port = 1}, note));
  killed.reset();
  ASSERT_TRUE(run_until(loop_, [&] { return proxied_->streams() == 1; }));
  EXPECT_TRUE(waiting.received().empty());
  ASSERT_TRUE(store_.set("k", "v").ok());
  ASSERT_TRUE(run_until(loop_, [&] { return !waiting.received().empty(); }));
  EXPECT_EQ(waiting.received(), u8(0));
}

TEST_F(TcpStoreProxyTest, LargeValuesPassInBothDirections) {
  serve();
  LoopPeer peer(loop_, proxied_->port());
  const std::string value(2 << 20, 'x');
  std::string request = validate() + u8(1) + text("k") + text(value) + u8(3) + text("k");
  const auto feed = loop_.every(std::chrono::milliseconds(1), [&] { request.erase(0, peer.send_some(request)); });
  ASSERT_TRUE(run_until(loop_, [&] { return peer.received().size() == value.size() + 8; }));
  EXPECT_EQ(peer.received(), text(value));
}

TEST_F(TcpStoreProxyTest, AStrangerIsRefusedBeforeAByte) {
  serve([](const ConnectionEnds&, const std::function<void(bool)>& done) { done(false); });
  LoopPeer peer(loop_, proxied_->port());
  ASSERT_TRUE(peer.send(validate() + u8(4) + text("n") + i64(1)));
  ASSERT_TRUE(run_until(loop_, [&] { return peer.is_closed(); }));
  EXPECT_EQ(store_.size(), 0U);
  ASSERT_FALSE(problems_.empty());
  EXPECT_THAT(problems_[0], HasSubstr("its owner is not the job's user"));
}

TEST_F(TcpStoreProxyTest, ABadRequestClosesItsClient) {
  serve();
  LoopPeer peer(loop_, proxied_->port());
  ASSERT_TRUE(peer.send(validate() + u8(200)));
  ASSERT_TRUE(run_until(loop_, [&] { return peer.is_closed(); }));
  EXPECT_THAT(problems_.at(0), HasSubstr("client of host 1"));
}

TEST_F(TcpStoreProxyTest, ALostLinkClosesItsClients) {
  serve();
  LoopPeer peer(loop_, proxied_->port());
  ask(peer, validate() + u8(4) + text("n") + i64(1), 8);
  proxied_->cut();
  ASSERT_TRUE(run_until(loop_, [&] { return peer.is_closed(); }));
}

// A child that breaks the rules loses its link, with a sentence that names what it did.
TEST_F(TcpStoreProxyTest, ALyingChildLosesItsLink) {
  serve(allow, 1);
  const auto port = proxied_->origin_port();
  const auto expect_closed = [&](const std::vector<HorovodFrame>& frames, const char* why) {
    problems_.clear();
    LoopPeer child(loop_, port);
    for (const HorovodFrame& frame : frames) {
      EXPECT_TRUE(child.send(horovod_frame_head(frame) + std::string(frame.value)));
    }
    ASSERT_TRUE(run_until(loop_, [&] { return child.is_closed(); })) << why;
    ASSERT_FALSE(problems_.empty()) << why;
    EXPECT_THAT(problems_[0], HasSubstr("closed the connection of the job's host at 127.0.0.1"));
    EXPECT_THAT(problems_[0], HasSubstr(why));
  };
  const HorovodFrame open{.kind = HorovodFrameKind::kStreamOpen, .id = 1, .key = "host 1"};
  const std::string piece(kStreamPiece + 1, 'x');
  expect_closed({open, open}, "a stream is opened twice");
  expect_closed({open, {.kind = HorovodFrameKind::kStreamBytes, .id = 1, .value = piece}}, "more than its window");
  expect_closed({open, {.kind = HorovodFrameKind::kStreamCredit, .id = 1, .value = "x"}}, "window that is none");
  expect_closed({{.kind = HorovodFrameKind::kEnter, .id = 1, .key = "f", .value = "x"}},
                "the job's hosts form no tree");
  expect_closed({{.kind = HorovodFrameKind::kSet, .scope = "s", .key = "k"}}, "a cache sent a frame of kind 18");
  expect_closed({{.kind = static_cast<HorovodFrameKind>(99)}}, "malformed frame");
}

}  // namespace
}  // namespace muster::rendezvous::tcp_store_proxy_test
