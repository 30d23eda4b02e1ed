// A relay between children and a launcher, both played by blocking sockets.
#include "agent/relay/relay_server.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/net.h"
#include "tests/unit/support/few_descriptors.h"
#include "tests/unit/support/relay_peer.h"

namespace muster::agent::relay_server_test {
namespace {

using proto::RelayKind;
using proto::ViaService;
using testing_support::connect_here;
using testing_support::ends;
using testing_support::is_readable;
using testing_support::read_bytes;
using testing_support::RelayPeer;
using testing_support::write_bytes;
using namespace std::chrono_literals;

class RelayServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    control_ = *base::listen_any(0, 16);
    output_ = *base::listen_any(0, 16);
    start();
  }
  void start() {
    auto relay = RelayServer::start({.launcher = *base::IpAddress::parse("127.0.0.1"),
                                     .control_port = *base::local_port(control_.get()),
                                     .output_port = *base::local_port(output_.get())});
    ASSERT_TRUE(relay.ok()) << relay.status();
    relay_ = std::move(*relay);
  }

  base::UniqueFd child(ViaService service = ViaService::kControl) const {
    base::UniqueFd fd = connect_here(relay_->port());
    write_bytes(fd.get(), proto::via_hello(service));
    return fd;
  }
  // Accepts the relay's connection, as the launcher.
  static RelayPeer accept(const base::UniqueFd& listening) {
    base::UniqueFd fd = testing_support::accept_here(listening.get());
    EXPECT_EQ(read_bytes(fd.get(), proto::kRelayHello.size()), proto::kRelayHello);
    return RelayPeer(std::move(fd));
  }
  void wait_for_children(std::size_t count) const {
    const base::MonotonicTime until = base::monotonic_now() + 20s;
    while (relay_->children() != count && base::monotonic_now() < until) ::poll(nullptr, 0, 2);
    EXPECT_EQ(relay_->children(), count);
  }

  base::UniqueFd control_;
  base::UniqueFd output_;
  std::unique_ptr<RelayServer> relay_;
};

TEST_F(RelayServerTest, CarriesManyStreamsBothWays) {
  std::vector<base::UniqueFd> children;
  std::map<std::uint32_t, std::size_t> child_of;
  children.push_back(child());
  RelayPeer launcher = accept(control_);
  for (std::size_t i = 0; i < 50; ++i) {
    if (i > 0) children.push_back(child());
    write_bytes(children[i].get(), "child" + std::to_string(1000 + i));
  }
  for (std::size_t i = 0; i < 50; ++i) {
    const RelayPeer::Frame data = launcher.next_of(RelayKind::kData);
    ASSERT_EQ(data.payload.size(), 9U) << data.payload;
    child_of[data.stream] = std::stoul(data.payload.substr(5)) - 1000;
  }
  ASSERT_EQ(child_of.size(), 50U);
  for (const auto& [stream, number] : child_of) launcher.send_data(stream, "to child " + std::to_string(1000 + number));
  for (std::size_t i = 0; i < 50; ++i) {
    EXPECT_EQ(read_bytes(children[i].get(), 13), "to child " + std::to_string(1000 + i));
  }
}

TEST_F(RelayServerTest, EachServiceHasItsConnection) {
  const base::UniqueFd first = child(ViaService::kOutput);
  RelayPeer output = accept(output_);
  EXPECT_EQ(output.next_of(RelayKind::kOpen).stream, 1U);
  EXPECT_FALSE(is_readable(control_.get())) << "no child wants this service";
  const base::UniqueFd second = child(ViaService::kControl);
  RelayPeer control = accept(control_);
  EXPECT_EQ(control.next_of(RelayKind::kOpen).stream, 1U);
}

TEST_F(RelayServerTest, ClosesTheStreamOfAChildThatEnds) {
  base::UniqueFd fd = child();
  write_bytes(fd.get(), "last words");
  fd.reset();
  RelayPeer launcher = accept(control_);
  EXPECT_EQ(launcher.next_of(RelayKind::kData).payload, "last words");
  EXPECT_EQ(launcher.next_of(RelayKind::kClose).stream, 1U);
  launcher.send({.kind = RelayKind::kClose, .stream = 1});
  wait_for_children(0);
}

// The launcher refuses an agent: its last bytes arrive before the end.
TEST_F(RelayServerTest, ClosesAChildWhoseStreamTheLauncherEnds) {
  const base::UniqueFd fd = child();
  RelayPeer launcher = accept(control_);
  const std::uint32_t stream = launcher.next_of(RelayKind::kOpen).stream;
  const base::UniqueFd other = child();
  launcher.next_of(RelayKind::kOpen);
  launcher.send_data(stream, "goodbye");
  launcher.send({.kind = RelayKind::kClose, .stream = stream});
  EXPECT_EQ(launcher.next_of(RelayKind::kClose).stream, stream) << "it answers";
  EXPECT_EQ(read_bytes(fd.get(), 7), "goodbye");
  EXPECT_TRUE(ends(fd.get()));
  EXPECT_FALSE(is_readable(other.get()));
  wait_for_children(1);
}

// The child is slow. It gets all bytes, and then the end at once.
TEST_F(RelayServerTest, EndsASlowChildOnceItHasAllBytes) {
  const base::UniqueFd fd = child();
  RelayPeer launcher = accept(control_);
  const std::uint32_t stream = launcher.next_of(RelayKind::kOpen).stream;
  std::size_t sent = 0;
  std::size_t credit = proto::kRelayWindow;
  // Fill the child's socket and one window.
  while (true) {
    while (credit >= proto::kMaxRelayPayload) {
      launcher.send_data(stream, std::string(proto::kMaxRelayPayload, 'x'));
      credit -= proto::kMaxRelayPayload;
      sent += proto::kMaxRelayPayload;
    }
    pollfd readable{launcher.fd(), POLLIN, 0};
    if (::poll(&readable, 1, 500) != 1) break;
    credit += launcher.next_of(RelayKind::kCredit).credit;
  }
  launcher.send({.kind = RelayKind::kClose, .stream = stream});
  const base::MonotonicTime begun = base::monotonic_now();
  EXPECT_EQ(read_bytes(fd.get(), sent).size(), sent);
  EXPECT_TRUE(ends(fd.get()));
  EXPECT_LT(base::monotonic_now() - begun, 5s);
}

TEST_F(RelayServerTest, ClosesAllChildrenWithTheLauncher) {
  std::vector<base::UniqueFd> children;
  {
    children.push_back(child());
    RelayPeer launcher = accept(control_);
    for (int i = 1; i < 10; ++i) children.push_back(child());
    for (int i = 0; i < 10; ++i) launcher.next_of(RelayKind::kOpen);
  }
  for (const base::UniqueFd& one : children) EXPECT_TRUE(ends(one.get()));
  wait_for_children(0);
  const base::UniqueFd next = child();
  RelayPeer again = accept(control_);
  EXPECT_EQ(again.next_of(RelayKind::kOpen).stream, 1U) << "a new connection begins its numbers again";
}

// launcherd starts again, and the children dial before it listens.
TEST_F(RelayServerTest, HoldsNewChildrenWhileTheLauncherIsAway) {
  const std::uint16_t port = *base::local_port(control_.get());
  control_.reset();
  const base::UniqueFd early = child();
  write_bytes(early.get(), "early");
  ::poll(nullptr, 0, 300);
  EXPECT_FALSE(is_readable(early.get()));
  control_ = *base::listen_any(port, 16);
  RelayPeer launcher = accept(control_);
  EXPECT_EQ(launcher.next_of(RelayKind::kData).payload, "early");
}

TEST_F(RelayServerTest, GivesUpAChildIfTheLauncherStaysAway) {
  control_.reset();
  const base::UniqueFd fd = child();
  const base::MonotonicTime begun = base::monotonic_now();
  EXPECT_TRUE(ends(fd.get()));
  EXPECT_GT(base::monotonic_now() - begun, RelayServer::kHold - 200ms);
  EXPECT_LT(base::monotonic_now() - begun, RelayServer::kHold + 2s);
}

// A child sends without end, and the launcher grants nothing.
TEST_F(RelayServerTest, TakesOneWindowForALauncherThatDoesNotRead) {
  const base::UniqueFd fd = child();
  RelayPeer launcher = accept(control_);
  ASSERT_TRUE(base::set_nonblocking(fd.get(), true).ok());
  const std::string block(65'536, 'x');
  std::size_t sent = 0;
  while (true) {
    pollfd writable{fd.get(), POLLOUT, 0};
    if (::poll(&writable, 1, 500) != 1) break;
    const ssize_t n = ::send(fd.get(), block.data(), block.size(), MSG_NOSIGNAL);
    if (n > 0) sent += static_cast<std::size_t>(n);
    ASSERT_LT(sent, std::size_t{64} << 20) << "the relay takes bytes without bound";
  }
  EXPECT_EQ(launcher.read_stream(1, proto::kRelayWindow).size(), proto::kRelayWindow);
  EXPECT_FALSE(is_readable(launcher.fd())) << "this was all that may be sent";
  launcher.send({.kind = RelayKind::kCredit, .stream = 1, .credit = 1000});
  EXPECT_EQ(launcher.read_stream(1, 1000).size(), 1000U);
  EXPECT_FALSE(is_readable(launcher.fd()));
}

// Many children send, and the launcher reads nothing from the socket.
TEST_F(RelayServerTest, StopsReadingChildrenWhenItsConnectionIsFull) {
  constexpr std::size_t kChildren = 30;  // their windows are more than a socket and the relay hold
  std::vector<base::UniqueFd> children;
  children.push_back(child());
  RelayPeer launcher = accept(control_);
  while (children.size() < kChildren) children.push_back(child());
  wait_for_children(kChildren);
  std::vector<std::thread> writers;
  for (const base::UniqueFd& one : children) {
    writers.emplace_back([fd = one.get()] { write_bytes(fd, std::string(proto::kRelayWindow, 'x')); });
  }
  ::poll(nullptr, 0, 500);  // the writers fill all buffers
  std::map<std::uint32_t, std::size_t> got;
  std::size_t total = 0;
  while (total < kChildren * proto::kRelayWindow) {
    const auto frame = launcher.next();
    ASSERT_TRUE(frame.has_value()) << total;
    got[frame->stream] += frame->payload.size();
    total += frame->payload.size();
  }
  EXPECT_EQ(got.size(), kChildren);
  for (const auto& [stream, bytes] : got) EXPECT_EQ(bytes, proto::kRelayWindow) << stream;
  for (std::thread& writer : writers) writer.join();
}

// One child does not read. The others go on.
TEST_F(RelayServerTest, SlowChildDelaysNoOther) {
  const base::UniqueFd slow = child();
  RelayPeer launcher = accept(control_);
  const std::uint32_t of_slow = launcher.next_of(RelayKind::kOpen).stream;
  const base::UniqueFd quick = child();
  const std::uint32_t of_quick = launcher.next_of(RelayKind::kOpen).stream;
  launcher.send_data(of_slow, std::string(proto::kRelayWindow, 'x'));
  launcher.send_data(of_quick, "quick");
  EXPECT_EQ(read_bytes(quick.get(), 5), "quick");
  EXPECT_EQ(read_bytes(slow.get(), proto::kRelayWindow).size(), proto::kRelayWindow);
}

// A program that has taken the launcher's port cannot fill the relay's memory.
TEST_F(RelayServerTest, EndsTheConnectionOfALauncherThatBreaksTheProtocol) {
  const std::vector<proto::RelayFrame> lies = {
      {.kind = RelayKind::kOpen, .stream = 1},
      {.kind = RelayKind::kCredit, .stream = 1, .credit = 1},
  };
  for (const proto::RelayFrame& lie : lies) {
    const base::UniqueFd fd = child();
    RelayPeer launcher = accept(control_);
    EXPECT_EQ(launcher.next_of(RelayKind::kOpen).stream, 1U);
    launcher.send(lie);
    EXPECT_TRUE(ends(launcher.fd()));
    EXPECT_TRUE(ends(fd.get()));
  }
  // More bytes than were granted, to a child that does not read.
  const base::UniqueFd fd = child();
  RelayPeer launcher = accept(control_);
  std::atomic<bool> has_ended = false;
  std::thread reader([&] { has_ended = ends(launcher.fd()); });
  const std::string block(proto::kMaxRelayPayload, 'x');
  std::string frame;
  proto::append_relay_frame({.kind = RelayKind::kData, .stream = 1, .payload = block}, frame);
  for (int i = 0; i < 4000 && !has_ended; ++i) {
    if (::send(launcher.fd(), frame.data(), frame.size(), MSG_NOSIGNAL) < 0) break;
  }
  reader.join();
  EXPECT_TRUE(has_ended);
}

TEST_F(RelayServerTest, FramesOfUnknownStreamsAreIgnored) {
  const base::UniqueFd fd = child();
  RelayPeer launcher = accept(control_);
  launcher.send_data(77, "of a child that has gone");
  launcher.send({.kind = RelayKind::kClose, .stream = 78});
  launcher.send({.kind = RelayKind::kProven, .stream = 79});
  launcher.send_data(1, "hello");
  EXPECT_EQ(read_bytes(fd.get(), 5), "hello");
}

TEST_F(RelayServerTest, Echoes) {
  const base::UniqueFd fd = child(ViaService::kEcho);
  for (const std::string question : {"?", "??", "?"}) {
    write_bytes(fd.get(), question);
    EXPECT_EQ(read_bytes(fd.get(), question.size()), question);
  }
  EXPECT_FALSE(is_readable(control_.get())) << "an echo needs no launcher";
}

TEST_F(RelayServerTest, ClosesWhatDoesNotBeginAsAChild) {
  const base::UniqueFd fd = connect_here(relay_->port());
  write_bytes(fd.get(), "GET / HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(ends(fd.get()));
}

TEST_F(RelayServerTest, ClosesTheOldestOfTooManyStrangersAndNoProvenChild) {
  const base::UniqueFd proven = child();
  RelayPeer launcher = accept(control_);
  launcher.send({.kind = RelayKind::kProven, .stream = launcher.next_of(RelayKind::kOpen).stream});
  launcher.send_data(1, "!");  // it has handled the frame before
  EXPECT_EQ(read_bytes(proven.get(), 1), "!");
  std::vector<base::UniqueFd> strangers;
  for (std::size_t i = 0; i < RelayServer::kMostUnproven + 10; ++i) strangers.push_back(connect_here(relay_->port()));
  for (std::size_t i = 0; i < 10; ++i) EXPECT_TRUE(ends(strangers[i].get())) << i;
  EXPECT_FALSE(is_readable(strangers.back().get()));
  EXPECT_FALSE(is_readable(proven.get()));
}

// All that is closed by time, at once.
TEST_F(RelayServerTest, ClosesChildrenThatAreNotProvenInTime) {
  const base::MonotonicTime begun = base::monotonic_now();
  const base::UniqueFd silent = connect_here(relay_->port());
  const base::UniqueFd unproven = child();
  RelayPeer launcher = accept(control_);
  const std::uint32_t stream = launcher.next_of(RelayKind::kOpen).stream;
  const base::UniqueFd proven = child();
  launcher.send({.kind = RelayKind::kProven, .stream = launcher.next_of(RelayKind::kOpen).stream});
  EXPECT_TRUE(ends(silent.get()));
  EXPECT_TRUE(ends(unproven.get()));
  EXPECT_GT(base::monotonic_now() - begun, RelayServer::kProveTime - 1s);
  EXPECT_EQ(launcher.next_of(RelayKind::kClose).stream, stream);
  EXPECT_FALSE(is_readable(proven.get()));
}

TEST_F(RelayServerTest, WaitsForDescriptorsAndRecovers) {
  base::UniqueFd late(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const base::SockAddr to =
      base::make_sockaddr(*base::IpAddress::parse("127.0.0.1"), static_cast<std::uint16_t>(relay_->port()));
  {
    const testing_support::FewDescriptors none;
    ASSERT_EQ(::connect(late.get(), to.get(), to.size), 0);
    ::poll(nullptr, 0, 300);
    EXPECT_EQ(relay_->children(), 0U);
  }
  write_bytes(late.get(), proto::via_hello(ViaService::kEcho) + "?");
  EXPECT_EQ(read_bytes(late.get(), 1), "?");
}

TEST_F(RelayServerTest, DrainAcceptsNoChildAndWaitsForNoEcho) {
  base::UniqueFd fd = child(ViaService::kEcho);
  write_bytes(fd.get(), "?");
  EXPECT_EQ(read_bytes(fd.get(), 1), "?");
  relay_->drain_blocking(base::monotonic_now() + 20s);
  EXPECT_EQ(relay_->children(), 0U);
  base::UniqueFd late(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const base::SockAddr to =
      base::make_sockaddr(*base::IpAddress::parse("127.0.0.1"), static_cast<std::uint16_t>(relay_->port()));
  EXPECT_NE(::connect(late.get(), to.get(), to.size), 0);
}

TEST_F(RelayServerTest, ItsEndClosesEverything) {
  const base::UniqueFd fd = child();
  RelayPeer launcher = accept(control_);
  EXPECT_EQ(launcher.next_of(RelayKind::kOpen).stream, 1U);
  relay_.reset();
  EXPECT_TRUE(ends(fd.get()));
  EXPECT_TRUE(ends(launcher.fd()));
}

}  // namespace
}  // namespace muster::agent::relay_server_test
