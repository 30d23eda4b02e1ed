#include "agent/job/owner_peers.h"

#include <sys/socket.h>

#include <gtest/gtest.h>

namespace muster::agent::owner_peers_test {
namespace {

using namespace std::chrono_literals;

constexpr std::uint16_t kOurs = 4711;

base::IpAddress here() {
  return *base::IpAddress::parse("127.0.0.1");
}

rendezvous::ConnectionEnds from_port(std::uint16_t port) {
  return {here(), port, *base::IpAddress::parse("2001:db8::1"), 9};
}

// The agents of two hosts. Both run on this machine.
class OwnerPeersTest : public ::testing::Test {
 protected:
  void open(const std::string& secret_there) {
    ASSERT_TRUE(here_.open("secret").ok());
    const auto port = there_.open(secret_there);
    ASSERT_TRUE(port.ok()) << port.status();
    v1::Launch launch;
    launch.add_peers()->add_addresses("192.0.2.7");
    v1::JobPeer& peer = *launch.add_peers();
    peer.add_addresses("127.0.0.1");
    peer.set_owner_port(*port);
    here_.add_peers(launch.peers());
  }
  // True if the other host allows it within `bound`.
  bool ask(std::uint16_t port, base::Duration bound = 20s) {
    bool allowed = false;
    here_.ask(from_port(port), [&] {
      allowed = true;
      loop_.stop();
    });
    const base::Timer deadline = loop_.after(bound, [this] { loop_.stop(); });
    loop_.run();
    return allowed;
  }

  base::Loop loop_;
  std::string asked_;
  OwnerPeers here_{loop_, [](const rendezvous::ConnectionEnds&) { return false; }};
  OwnerPeers there_{
      loop_,
      [this](const rendezvous::ConnectionEnds& ends) {
        asked_ += fmt::format("{} {} ", base::format_endpoint(ends.peer, ends.peer_port),
                              base::format_endpoint(ends.local, ends.local_port));
        return ends.peer_port == kOurs;
      },
      [](const rendezvous::ConnectionEnds& ends) -> std::optional<StoreClient> {
        if (ends.peer_port == 2) return StoreClient();
        if (ends.peer_port != 1) return std::nullopt;
        return StoreClient{Awaited{.what = "the key \"x\" in torch's store", .since = base::monotonic_now() - 7s}};
      }};
};

TEST_F(OwnerPeersTest, TheOtherHostSaysWhoseItIs) {
  open("secret");
  EXPECT_TRUE(ask(kOurs));
  EXPECT_EQ(asked_, "127.0.0.1:4711 [2001:db8::1]:9 ");
  EXPECT_FALSE(ask(kOurs + 1, 300ms));
}

TEST_F(OwnerPeersTest, WhoDoesNotKnowTheSecretIsNotHeard) {
  open("another");
  EXPECT_FALSE(ask(kOurs, 300ms));
  EXPECT_EQ(asked_, "") << "the question itself is not believed";
}

TEST_F(OwnerPeersTest, HostsOutsideTheJobAreStrangers) {
  EXPECT_FALSE(here_.is_stranger(here())) << "nothing is known yet";
  open("secret");
  EXPECT_FALSE(here_.is_stranger(here()));
  EXPECT_FALSE(here_.is_stranger(*base::IpAddress::parse("192.0.2.7"))) << "though it cannot be asked";
  EXPECT_TRUE(here_.is_stranger(*base::IpAddress::parse("192.0.2.8")));
}

TEST_F(OwnerPeersTest, ALostDatagramIsSentAgain) {
  ASSERT_TRUE(here_.open("secret").ok());
  // No agent reads the other host's socket, so the first question stays there.
  const base::UniqueFd taken(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  base::SockAddr any = base::make_sockaddr(here(), 0);
  ASSERT_EQ(::bind(taken.get(), any.get(), any.size), 0);
  v1::Launch launch;
  v1::JobPeer& peer = *launch.add_peers();
  peer.add_addresses("127.0.0.1");
  peer.set_owner_port(*base::local_port(taken.get()));
  here_.add_peers(launch.peers());
  here_.ask(from_port(kOurs), [] {});
  int datagrams = 0;
  const base::Timer watch = loop_.on_readable(taken.get(), [&] {
    char bytes[256];
    EXPECT_GT(::recv(taken.get(), bytes, sizeof bytes, 0), 0);
    if (++datagrams == 3) loop_.stop();
  });
  const base::Timer deadline = loop_.after(20s, [this] { loop_.stop(); });
  loop_.run();
  EXPECT_EQ(datagrams, 3);
}

TEST_F(OwnerPeersTest, TheOtherHostSaysWhatAClientWaitsFor) {
  open("secret");
  const auto ask_client = [&](std::uint16_t port) {
    std::string told = "no answer";
    const rendezvous::ConnectionEnds ends{*base::IpAddress::parse("192.0.2.9"), port, here(), 29500};
    here_.ask_client(ends, [&](const std::optional<StoreClient>& client) {
      told = !client ? "not known" : client->wait ? client->wait->what : "nothing";
      if (client && client->wait) {
        EXPECT_LT(client->wait->since, base::monotonic_now() - 6s);
      }
      loop_.stop();
    });
    const base::Timer deadline = loop_.after(20s, [this] { loop_.stop(); });
    loop_.run();
    return told;
  };
  EXPECT_EQ(ask_client(1), "the key \"x\" in torch's store");
  EXPECT_EQ(ask_client(2), "nothing");
  EXPECT_EQ(ask_client(3), "not known") << "the other host serves no such connection, so no answer comes";
  EXPECT_EQ(asked_, "") << "it was not asked for owners";
}

TEST_F(OwnerPeersTest, AHostThatCannotBeAskedIsNotWaitedFor) {
  open("secret");
  bool is_told = false;
  const rendezvous::ConnectionEnds ends{here(), 1, *base::IpAddress::parse("192.0.2.7"), 29500};
  here_.ask_client(ends, [&](const std::optional<StoreClient>& client) {
    EXPECT_FALSE(client);
    is_told = true;
  });
  EXPECT_TRUE(is_told);
}

}  // namespace
}  // namespace muster::agent::owner_peers_test
