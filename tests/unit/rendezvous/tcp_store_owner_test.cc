// Whose connections the server reads: the owner is told at once, later or never.
#include <unistd.h>

#include <gtest/gtest.h>

#include "rendezvous/local_owner.h"
#include "tests/unit/rendezvous/tcp_store_rig.h"
#include "tests/unit/rendezvous/torch_wire.h"

namespace muster::rendezvous::tcp_store_owner_test {
namespace {

using namespace std::chrono_literals;
using namespace testing;

TEST(TcpStoreOwner, ARefusedOwnerIsNotRead) {
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

TEST(TcpStoreOwner, TheOwnerMayBeToldLater) {
  LateCheck check;
  Served served({.owner_check = check.check()});
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

TEST(TcpStoreOwner, ACheckThatTakesTooLongRefuses) {
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

TEST(TcpStoreOwner, AnAnswerAfterTheServersEndIsIgnored) {
  LateCheck check;
  {
    Served served({.owner_check = check.check()});
    Client client(served.port());
    check.wait_for(0);
  }
  check.wait_for(0)(true);
}

// The connection that an A client keeps silent counts as soon as it is there, checked or not.
TEST(TcpStoreOwner, AnUncheckedTwinIsSilent) {
  LateCheck check;
  Served served({.owner_check = check.check()});
  Client client(served.port());
  const auto first = check.wait_for(0);
  served.on_loop([&] { first(true); });
  EXPECT_EQ(client.ask(kAddInit, 8), i64(1));
  Client callback(served.port());
  check.wait_for(1);
  EXPECT_EQ(client.ask(u8(8) + text("init/"), 8), i64(1));  // DELETE_KEY
}

TEST(TcpStoreOwner, TheUsersOwnConnectionsAreLet) {
  Served served({.owner_check = allow_local_owner(::getuid())});
  EXPECT_EQ(Client(served.port()).ask(kAddInit, 8), i64(1));
  EXPECT_EQ(Client(served.port(), "::1").ask(kAddInit, 8), i64(2));
}

}  // namespace
}  // namespace muster::rendezvous::tcp_store_owner_test
