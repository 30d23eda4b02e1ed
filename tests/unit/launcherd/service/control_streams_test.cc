// The bytes of agents' control channels: who is let in, how many at once, and through relays as well.
#include "launcherd/service/control_streams.h"

#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "agent/relay/relay_server.h"
#include "base/net.h"
#include "base/tls.h"
#include "proto/control_key.h"
#include "tests/unit/support/control_peer.h"
#include "tests/unit/support/few_descriptors.h"
#include "tests/unit/support/relay_peer.h"
#include "tests/unit/support/turn_until.h"

namespace muster::control_streams_test {
namespace {

using launcherd::ControlArrival;
using launcherd::ControlStreams;
using proto::ControlKind;
using proto::RelayKind;
using testing_support::connect_here;
using testing_support::ControlPeer;
using testing_support::is_readable;
using testing_support::RelayPeer;
using testing_support::turn_until;
using Kind = ControlArrival::Kind;

v1::AgentMessage numbered(int number) {
  v1::AgentMessage message;
  message.set_sequence(static_cast<std::uint64_t>(number));
  return message;
}

class ControlStreamsTest : public ::testing::Test {
 protected:
  void SetUp() override { ::signal(SIGPIPE, SIG_IGN); }

  void start(std::size_t most_unproven = 1024) {
    base::UniqueFd listening = *base::listen_any(0, 4096);
    port_ = *base::local_port(listening.get());
    launcherd::ControlStreamsOptions options;
    options.keys = keys_;
    options.listening = std::move(listening);
    options.most_unproven = most_unproven;
    options.on_arrivals = [this](std::vector<ControlArrival> arrivals) {
      for (ControlArrival& arrival : arrivals) take(std::move(arrival));
    };
    options.on_line = [this](const std::string& line) { lines_.push_back(line); };
    auto started = ControlStreams::start(loop_, std::move(options));
    ASSERT_TRUE(started.ok()) << started.status();
    streams_ = std::move(*started);
  }

  base::TlsKey add_key(int agent) {
    base::TlsKey key = proto::control_key("abcdefgh", "token-" + std::to_string(agent));
    EXPECT_TRUE(keys_->add(key).ok());
    return key;
  }
  ControlPeer agent(int number) { return ControlPeer(connect_here(port_), *base::TlsContext::client(add_key(number))); }
  // A connection through the relay at this port.
  static base::UniqueFd through(int relay_port) {
    base::UniqueFd fd = connect_here(relay_port);
    testing_support::write_bytes(fd.get(), proto::via_hello(proto::ViaService::kControl));
    return fd;
  }
  std::unique_ptr<agent::RelayServer> start_relay() const {
    auto relay = agent::RelayServer::start({.launcher = *base::IpAddress::parse("127.0.0.1"), .control_port = port_});
    EXPECT_TRUE(relay.ok()) << relay.status();
    return std::move(*relay);
  }

  void take(ControlArrival arrival) {
    const bool is_new = arrival.kind == Kind::kProven;
    EXPECT_EQ(is_new, !living_.contains(arrival.stream)) << "the first arrival of a stream is its proof";
    if (is_new) {
      living_.insert(arrival.stream);
      identities_[arrival.identity] = arrival.stream;
    }
    if (arrival.kind == Kind::kEnd) {
      living_.erase(arrival.stream);
      ++ended_;
    }
    if (arrival.kind == Kind::kMessage) {
      got_[arrival.stream].push_back(static_cast<int>(arrival.message.sequence()));
      if (handles_) streams_->handled(arrival.stream, arrival.bytes);
    }
    if (arrival.kind == Kind::kUnreadable) ++unreadable_;
  }

  // Connects an agent with each key at once, by `connect`, and waits until all are proven.
  void herd(int agents, const std::function<base::UniqueFd(int)>& connect) {
    std::vector<std::unique_ptr<base::TlsStream>> all;
    for (int i = 0; i < agents; ++i) {
      all.push_back(std::make_unique<base::TlsStream>(*base::TlsContext::client(add_key(i)), connect(i)));
    }
    std::size_t done = 0;
    while (done < all.size()) {
      std::vector<pollfd> wanted;
      done = 0;
      for (const auto& one : all) {
        const auto step = one->handshake_step();
        ASSERT_TRUE(step.ok()) << step.status();
        if (*step == base::TlsProgress::kDone)
          ++done;
        else
          wanted.push_back({one->fd(), POLLIN, 0});
      }
      if (done < all.size()) {
        ASSERT_GT(::poll(wanted.data(), wanted.size(), 20'000), 0) << done << " are served";
      }
    }
    turn_until(loop_, [&] { return living_.size() == all.size(); });
    EXPECT_EQ(identities_.size(), all.size());
  }

  base::Loop loop_;
  std::shared_ptr<base::TlsKeyRing> keys_ = std::make_shared<base::TlsKeyRing>();
  std::uint16_t port_ = 0;
  std::vector<std::string> lines_;
  std::set<std::uint64_t> living_;
  std::map<std::string, std::uint64_t> identities_;
  std::map<std::uint64_t, std::vector<int>> got_;
  int ended_ = 0;
  int unreadable_ = 0;
  bool handles_ = true;
  std::unique_ptr<ControlStreams> streams_;
};

TEST_F(ControlStreamsTest, DeliversMessagesInOrderAfterTheProof) {
  start();
  ControlPeer peer = agent(3);
  ASSERT_TRUE(peer.handshake());
  for (int i = 1; i <= 100; ++i) ASSERT_TRUE(peer.send(numbered(i)));
  ASSERT_TRUE(peer.send_frame(ControlKind::kUnreadable, ""));
  ASSERT_TRUE(peer.send_frame(ControlKind::kMessage, "\xff\xff"));
  turn_until(loop_, [&] { return unreadable_ == 2; });
  ASSERT_EQ(got_.size(), 1U);
  const std::vector<int>& got = got_.begin()->second;
  ASSERT_EQ(got.size(), 100U);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(got[static_cast<std::size_t>(i)], i + 1);
  EXPECT_EQ(identities_.begin()->first, proto::control_key("abcdefgh", "token-3").identity);
}

TEST_F(ControlStreamsTest, EndSendsWhatCameBeforeAndTheReason) {
  start();
  ControlPeer peer = agent(0);
  ASSERT_TRUE(peer.handshake());
  turn_until(loop_, [&] { return !living_.empty(); });
  const std::uint64_t stream = *living_.begin();
  auto frame = std::make_shared<std::string>();
  proto::append_control_header(ControlKind::kMessage, 3, *frame);
  *frame += "abc";
  streams_->send(stream, frame);
  streams_->end(stream, "the test ends it");
  streams_->send(stream, frame);  // too late
  const auto first = peer.next();
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->payload, "abc");
  const auto last = peer.next();
  ASSERT_TRUE(last.has_value());
  EXPECT_EQ(last->kind, ControlKind::kEnd);
  EXPECT_EQ(last->payload, "the test ends it");
  EXPECT_FALSE(peer.next().has_value());
  turn_until(loop_, [&] { return ended_ == 1; });
  streams_->send(stream, frame);  // of a stream that is over
  streams_->end(stream, "again");
}

TEST_F(ControlStreamsTest, NewStrangerClosesTheOldest) {
  start(8);
  ControlPeer before = agent(0);
  ASSERT_TRUE(before.handshake());
  std::vector<base::UniqueFd> strangers;
  for (int i = 0; i < 20; ++i) strangers.push_back(connect_here(port_));
  for (int i = 0; i < 12; ++i) EXPECT_TRUE(testing_support::ends(strangers[static_cast<std::size_t>(i)].get())) << i;
  ControlPeer after = agent(1);
  EXPECT_TRUE(after.handshake());
  EXPECT_FALSE(is_readable(strangers.back().get()));
  ASSERT_TRUE(before.send(numbered(1)));
  turn_until(loop_, [&] { return got_.size() == 1 && living_.size() == 2; });
  EXPECT_EQ(ended_, 0);
}

TEST_F(ControlStreamsTest, ExpectedAgentsMayAllConnectAtOnce) {
  start(8);
  streams_->set_expected(100);
  std::vector<base::UniqueFd> silent;
  for (int i = 0; i < 100; ++i) silent.push_back(connect_here(port_));
  ControlPeer peer = agent(0);
  ASSERT_TRUE(peer.handshake());
  for (const base::UniqueFd& fd : silent) EXPECT_FALSE(is_readable(fd.get()));
}

// A peer that is no agent: HTTP, a TLS client with certificates, and one that begins like a relay.
TEST_F(ControlStreamsTest, ClosesPeersThatSpeakAnotherProtocol) {
  start();
  for (const std::string bytes : {"GET / HTTP/1.1\r\n\r\n", "MUSTRLYX", "MUSTVIAC"}) {
    const base::UniqueFd fd = connect_here(port_);
    testing_support::write_bytes(fd.get(), bytes);
    EXPECT_TRUE(testing_support::ends(fd.get())) << bytes;
  }
  ControlPeer stranger(connect_here(port_), *base::TlsContext::client({"muster://x", std::string(64, '0')}));
  EXPECT_FALSE(stranger.handshake());
}

TEST_F(ControlStreamsTest, PausesWithoutDescriptorsAndRecovers) {
  start();
  ControlPeer before = agent(0);
  ASSERT_TRUE(before.handshake());
  base::UniqueFd waiting(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const base::SockAddr to = base::make_sockaddr(*base::IpAddress::parse("127.0.0.1"), port_);
  {
    const testing_support::FewDescriptors none;
    ASSERT_EQ(::connect(waiting.get(), to.get(), to.size), 0);
    const base::MonotonicTime begun = base::monotonic_now();
    turn_until(loop_,
               [&] { return !lines_.empty() && base::monotonic_now() - begun > std::chrono::milliseconds(500); });
    ASSERT_TRUE(before.send(numbered(1)));
    turn_until(loop_, [&] { return got_.size() == 1; });
  }
  ControlPeer late(std::move(waiting), *base::TlsContext::client(add_key(1)));
  EXPECT_TRUE(late.handshake());
  ASSERT_EQ(lines_.size(), 1U);
  EXPECT_EQ(lines_.front(),
            "the control port: cannot accept a connection: Too many open files; new connections wait until you raise "
            "the limit (ulimit -n)");
}

TEST_F(ControlStreamsTest, ReadsNoMoreThanTheLoopHandles) {
  handles_ = false;
  start();
  ControlPeer peer = agent(0);
  ASSERT_TRUE(peer.handshake());
  v1::AgentMessage message;
  message.mutable_notice()->set_text(std::string(std::size_t{1} << 20, 'x'));
  int sent = 0;
  std::thread writer([&] {
    for (; sent < 40 && peer.send(message); ++sent) continue;
  });
  const base::MonotonicTime begun = base::monotonic_now();
  std::size_t bytes = 0;
  turn_until(loop_, [&] { return base::monotonic_now() - begun > std::chrono::seconds(2); });
  for (const auto& [stream, numbers] : got_) bytes += numbers.size() << 20;
  EXPECT_GE(bytes, std::size_t{7} << 20);
  EXPECT_LE(bytes, ControlStreams::kMostUnhandled + (std::size_t{1} << 20));
  const std::uint64_t stream = got_.begin()->first;
  handles_ = true;
  streams_->handled(stream, bytes + (std::size_t{1} << 20));
  turn_until(loop_, [&] { return got_.at(stream).size() == 40; });
  writer.join();
  EXPECT_EQ(sent, 40);
}

TEST_F(ControlStreamsTest, ServesAHerd) {
  start();
  streams_->set_expected(500);
  herd(500, [this](int) { return connect_here(port_); });
  EXPECT_EQ(ended_, 0);
}

TEST_F(ControlStreamsTest, ServesAHerdThroughRelays) {
  start();
  streams_->set_expected(500);
  std::vector<std::unique_ptr<agent::RelayServer>> relays;
  for (int i = 0; i < 8; ++i) relays.push_back(start_relay());
  herd(500, [&](int agent) { return through(relays[static_cast<std::size_t>(agent % 8)]->port()); });
  EXPECT_EQ(ended_, 0);
  relays.clear();
  turn_until(loop_, [&] { return ended_ == 500; });
  EXPECT_TRUE(living_.empty());
}

TEST_F(ControlStreamsTest, ClosesAStrangersStreamAndNotItsRelay) {
  start();
  const auto relay = start_relay();
  ControlPeer peer(through(relay->port()), *base::TlsContext::client(add_key(0)));
  ASSERT_TRUE(peer.handshake());
  RelayPeer raw = RelayPeer::relay(port_);
  raw.send({.kind = RelayKind::kOpen, .stream = 1});
  raw.send_data(1, "this is no TLS");
  EXPECT_EQ(raw.next_of(RelayKind::kClose).stream, 1U);
  ASSERT_TRUE(peer.send(numbered(7)));
  turn_until(loop_, [&] { return got_.size() == 1; });
}

// A relay that breaks the protocol takes its streams with it, and nothing else.
TEST_F(ControlStreamsTest, LyingRelayIsClosed) {
  start();
  ControlPeer direct = agent(0);
  ASSERT_TRUE(direct.handshake());
  RelayPeer liar = RelayPeer::relay(port_);
  liar.send({.kind = RelayKind::kOpen, .stream = 5});
  liar.send({.kind = RelayKind::kOpen, .stream = 5});
  EXPECT_TRUE(testing_support::ends(liar.fd()));
  ASSERT_TRUE(direct.send(numbered(7)));
  turn_until(loop_, [&] { return got_.size() == 1; });
}

// Silent peers of each kind, at the same time, because each test of them takes kProveTime.
TEST_F(ControlStreamsTest, ClosesPeersThatDoNotProveThemselvesInTime) {
  start();
  const base::MonotonicTime begun = base::monotonic_now();
  ControlPeer proven = agent(0);
  ASSERT_TRUE(proven.handshake());
  const base::UniqueFd silent = connect_here(port_);
  const base::UniqueFd half = connect_here(port_);
  testing_support::write_bytes(half.get(), std::string("\x16\x03\x01", 3));
  const RelayPeer empty = RelayPeer::relay(port_);
  RelayPeer with_strangers = RelayPeer::relay(port_);
  with_strangers.send({.kind = RelayKind::kOpen, .stream = 1});
  const auto relay = start_relay();
  auto child = std::make_unique<ControlPeer>(through(relay->port()), *base::TlsContext::client(add_key(1)));
  ASSERT_TRUE(child->handshake());
  const auto idle = start_relay();
  auto gone = std::make_unique<ControlPeer>(through(idle->port()), *base::TlsContext::client(add_key(2)));
  ASSERT_TRUE(gone->handshake());
  gone.reset();  // its relay has no proven stream from now on
  const auto late = {silent.get(), half.get(), empty.fd(), with_strangers.fd()};
  for (const int fd : late) EXPECT_FALSE(is_readable(fd));
  for (const int fd : late) EXPECT_TRUE(testing_support::ends(fd));
  EXPECT_GT(base::monotonic_now() - begun, ControlStreams::kProveTime - std::chrono::seconds(1));
  EXPECT_LT(base::monotonic_now() - begun, ControlStreams::kProveTime + std::chrono::seconds(4));
  ASSERT_TRUE(proven.send(numbered(7)));
  ASSERT_TRUE(child->send(numbered(7)));
  turn_until(loop_, [&] { return got_.size() == 2; });
}

}  // namespace
}  // namespace muster::control_streams_test
