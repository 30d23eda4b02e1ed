// Tests a port with silent unauthenticated peers and without descriptors. The test takes the place of gRPC.
#include "launcherd/service/front_door.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <vector>

#include <gtest/gtest.h>

#include "base/net.h"
#include "tests/unit/support/relay_peer.h"
#include "tests/unit/support/turn_until.h"

namespace muster::front_door_test {
namespace {

using testing_support::connect_here;
using testing_support::is_readable;
using testing_support::turn_until;

// Limits this process to `soft` descriptors while it lives.
class DescriptorLimit {
 public:
  explicit DescriptorLimit(rlim_t soft) {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    const rlimit few{soft, before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  }
  ~DescriptorLimit() { EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before_), 0); }
  DescriptorLimit(const DescriptorLimit&) = delete;
  DescriptorLimit& operator=(const DescriptorLimit&) = delete;

 private:
  rlimit before_{};
};

class FrontDoorTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kMost = 8;

  void SetUp() override {
    base::UniqueFd listening = *base::listen_any(0, 64);
    ASSERT_TRUE(base::set_nonblocking(listening.get(), true).ok());
    port_ = *base::local_port(listening.get());
    auto opened = launcherd::FrontDoor::open(loop_, std::move(listening),
                                             [this](base::UniqueFd fd) { accepted_.push_back(std::move(fd)); },
                                             {.most_unproven = [] { return kMost; },
                                              .name = "the port of the test",
                                              .on_line = [this](const std::string& line) { lines_.push_back(line); }});
    ASSERT_TRUE(opened.ok()) << opened.status();
    door_ = std::move(*opened);
  }

  // Connects, and waits until the connection is accepted.
  base::UniqueFd connect() {
    base::UniqueFd fd = connect_here(port_);
    const std::size_t wanted = accepted_.size() + 1;
    turn_until(loop_, [&] { return accepted_.size() == wanted; });
    return fd;
  }
  // As gRPC names the peer of this connection.
  static std::string peer_name(const base::UniqueFd& fd) {
    return "ipv4:127.0.0.1:" + std::to_string(*base::local_port(fd.get()));
  }

  base::Loop loop_;
  std::uint16_t port_ = 0;
  std::vector<base::UniqueFd> accepted_;
  std::vector<std::string> lines_;
  std::unique_ptr<launcherd::FrontDoor> door_;
};

TEST_F(FrontDoorTest, ClosesTheOldestSilentPeerForANewOne) {
  std::vector<base::UniqueFd> peers;
  for (std::size_t i = 0; i < kMost; ++i) peers.push_back(connect());
  EXPECT_EQ(door_->unproven(), kMost);
  for (const base::UniqueFd& peer : peers) EXPECT_FALSE(is_readable(peer.get()));
  peers.push_back(connect());
  EXPECT_TRUE(testing_support::ends(peers.front().get()));
  EXPECT_FALSE(is_readable(peers[1].get()));
  EXPECT_FALSE(is_readable(peers.back().get()));
  EXPECT_EQ(door_->unproven(), kMost);
}

TEST_F(FrontDoorTest, DoesNotClosePeersThatAreAuthenticated) {
  const base::UniqueFd client = connect();
  door_->authenticated("unix:/run/socket");
  EXPECT_EQ(door_->unproven(), 1U);
  door_->authenticated(peer_name(client));
  EXPECT_EQ(door_->unproven(), 0U);
  std::vector<base::UniqueFd> strangers;
  for (std::size_t i = 0; i < 2 * kMost; ++i) strangers.push_back(connect());
  EXPECT_TRUE(testing_support::ends(strangers.front().get()));
  EXPECT_FALSE(is_readable(client.get()));
}

// From here on gRPC's own listener would accept nothing.
TEST_F(FrontDoorTest, AcceptsAgainWhenDescriptorsAreFree) {
  const base::UniqueFd waiting(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const base::SockAddr to = base::make_sockaddr(*base::IpAddress::parse("127.0.0.1"), port_);
  {
    const DescriptorLimit limit(256);
    std::vector<base::UniqueFd> taken;
    for (int fd = ::dup(0); fd >= 0; fd = ::dup(0)) taken.emplace_back(fd);
    ASSERT_EQ(::connect(waiting.get(), to.get(), to.size), 0);
    turn_until(loop_, [this] { return !lines_.empty(); });
    // The door does not report further tries, and they do not end the pause.
    const base::MonotonicTime begun = base::monotonic_now();
    turn_until(loop_, [&] { return base::monotonic_now() - begun > std::chrono::milliseconds(500); });
    EXPECT_TRUE(accepted_.empty());
  }
  turn_until(loop_, [this] { return accepted_.size() == 1; });
  ASSERT_EQ(lines_.size(), 1U);
  EXPECT_EQ(lines_.front(),
            "the port of the test: cannot accept a connection: Too many open files; new connections wait until you "
            "raise the limit (ulimit -n)");
}

TEST_F(FrontDoorTest, AcceptsNothingOnceClosed) {
  const base::UniqueFd before = connect();
  door_->close();
  const base::UniqueFd late(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const base::SockAddr to = base::make_sockaddr(*base::IpAddress::parse("127.0.0.1"), port_);
  EXPECT_EQ(::connect(late.get(), to.get(), to.size), -1);
  EXPECT_FALSE(is_readable(before.get())) << "gRPC has this connection";
}

TEST(UnprovenLimit, FollowsTheLimitOfDescriptors) {
  {
    const DescriptorLimit limit(1024);
    EXPECT_EQ(launcherd::unproven_limit(), 128U);
  }
  const DescriptorLimit limit(64);
  EXPECT_EQ(launcherd::unproven_limit(), 16U);
}

}  // namespace
}  // namespace muster::front_door_test
