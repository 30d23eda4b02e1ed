// What every link promises, over rings and over TCP; then what only one of them does.
#include "collectives/transport/link.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "tests/unit/collectives/transport/test_world.h"

namespace muster::collectives::link_test {
namespace {

using base::Code;
using Bytes = std::vector<std::byte>;

Bytes random_data(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

class LinkTest : public ::testing::TestWithParam<Wire> {
 protected:
  TestWorld world_{GetParam(), 2};
  Link& left_ = *world_.peers[0]->links[1];
  Link& right_ = *world_.peers[1]->links[0];

  // Waits by asking again: loopback takes a moment.
  static std::ptrdiff_t receive(Link& link, std::span<std::byte> head, std::span<std::byte> body) {
    std::ptrdiff_t received = 0;
    while (received == 0) received = link.try_receive(head, body);
    return received;
  }
};

TEST_P(LinkTest, HeadAndBodyArriveInOrder) {
  const Bytes head = random_data(40, 1);
  const Bytes body = random_data(100, 2);
  ASSERT_EQ(left_.try_send(head, body), 140);
  Bytes got_head(50);
  Bytes got_body(90);
  ASSERT_EQ(receive(right_, got_head, got_body), 140);
  EXPECT_TRUE(std::equal(head.begin(), head.end(), got_head.begin()));
  EXPECT_TRUE(std::equal(body.begin(), body.begin() + 10, got_head.begin() + 40));
  EXPECT_TRUE(std::equal(body.begin() + 10, body.end(), got_body.begin()));
  EXPECT_EQ(right_.try_receive(got_head), 0);
}

TEST_P(LinkTest, EitherPartMayBeEmpty) {
  const Bytes bytes = random_data(8, 3);
  Bytes got(8);
  ASSERT_EQ(left_.try_send(bytes, {}), 8);
  ASSERT_EQ(receive(right_, {}, got), 8);
  EXPECT_EQ(got, bytes);
  ASSERT_EQ(right_.try_send({}, bytes), 8);
  std::ranges::fill(got, std::byte{});
  ASSERT_EQ(receive(left_, got, {}), 8);
  EXPECT_EQ(got, bytes);
}

TEST_P(LinkTest, AStreamOfAnySizesComesOutAsItWentIn) {
  const Bytes sent = random_data(1 << 20, 4);
  Bytes received(sent.size());
  std::mt19937 random(5);
  std::size_t at_send = 0;
  std::size_t at_receive = 0;
  while (at_receive < received.size()) {
    const std::size_t head = std::min<std::size_t>(random() % 100, sent.size() - at_send);
    const std::size_t body = std::min<std::size_t>(random() % 30'000, sent.size() - at_send - head);
    if (head + body > 0) {
      const auto bytes = std::span(sent).subspan(at_send);
      const std::ptrdiff_t moved = left_.try_send(bytes.first(head), bytes.subspan(head, body));
      ASSERT_GE(moved, 0);
      at_send += static_cast<std::size_t>(moved);
    }
    const std::size_t place = std::min<std::size_t>(1 + random() % 30'000, received.size() - at_receive);
    const std::ptrdiff_t moved = right_.try_receive(std::span(received).subspan(at_receive, place));
    ASSERT_GE(moved, 0) << right_.why();
    at_receive += static_cast<std::size_t>(moved);
  }
  EXPECT_EQ(received, sent);
}

TEST_P(LinkTest, AFullLinkTakesNothingMore) {
  const Bytes bytes = random_data(1 << 16, 6);
  int turns = 0;
  while (left_.try_send({}, bytes) > 0) ASSERT_LT(++turns, 10'000);
  EXPECT_TRUE(left_.why().ok());
}

TEST_P(LinkTest, WhatWasSentBeforeTheEndCounts) {
  const Bytes bytes = random_data(16, 7);
  ASSERT_EQ(left_.try_send(bytes, {}), 16);
  world_.leave(0);
  Bytes got(16);
  ASSERT_EQ(receive(right_, {}, got), 16);
  EXPECT_EQ(got, bytes);
  EXPECT_EQ(receive(right_, {}, got), -1);
  EXPECT_EQ(right_.why().code(), Code::kUnavailable);
  EXPECT_NE(right_.why().message().find("rank 0 (n0)"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Wires, LinkTest, ::testing::Values(Wire::kRing, Wire::kTcp, Wire::kSealed),
                         [](const auto& param) { return name_of(param.param); });

class RingLinkTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kCapacity = 128;
  RingMemory out_{kCapacity};
  RingMemory in_{kCapacity};
  Flag bell_{};
  RingLink link_{out_.head(), in_.head(), kCapacity, bell_, "rank 1 (n1)"};
  Bytes bytes_ = Bytes(kCapacity);
};

TEST_F(RingLinkTest, APositionOfTheConsumerThatCannotBeBreaksTheLink) {
  while (link_.try_send({}, bytes_) > 0) continue;
  for (const std::uint32_t position : {129U, 0xffffff00U}) {
    out_.head().read.store(position);
    EXPECT_EQ(link_.try_send({}, bytes_), -1);
    EXPECT_NE(link_.why().message().find("damaged"), std::string::npos);
  }
}

TEST_F(RingLinkTest, APositionOfTheProducerThatCannotBeBreaksTheLink) {
  in_.head().written.store(129);
  EXPECT_EQ(link_.try_receive(bytes_), -1);
  EXPECT_NE(link_.why().message().find("rank 1 (n1)"), std::string::npos);
  in_.head().written.store(0);
  EXPECT_EQ(link_.try_receive(bytes_), -1) << "it stays broken";
}

TEST_F(RingLinkTest, TheRingIsUsedAllAround) {
  RingMemory wire(kCapacity);
  RingMemory back(kCapacity);
  RingLink sender(wire.head(), back.head(), kCapacity, bell_, "receiver");
  RingLink receiver(back.head(), wire.head(), kCapacity, bell_, "sender");
  std::uint32_t total = 0;
  Bytes got(kCapacity);
  for (int i = 0; i < 10'000; ++i) {
    const Bytes bytes = random_data(static_cast<std::size_t>(1 + i % 32), static_cast<unsigned>(i));
    ASSERT_EQ(sender.try_send(bytes, {}), static_cast<std::ptrdiff_t>(bytes.size()));
    ASSERT_EQ(receiver.try_receive(got), static_cast<std::ptrdiff_t>(bytes.size()));
    ASSERT_TRUE(std::equal(bytes.begin(), bytes.end(), got.begin()));
    total += static_cast<std::uint32_t>(bytes.size());
  }
  EXPECT_EQ(wire.head().written.load(), total);
}

TEST(TcpLinkTest, ACongestionControlThatIsNotThereIsAnError) {
  base::FdPair pair = make_tcp_pair();
  const auto link = TcpLink::create(std::move(pair.first), "rank 1 (n1)", {.congestion = "no_such_thing"});
  EXPECT_EQ(link.status().code(), Code::kInvalidArgument);
  EXPECT_NE(link.status().message().find("rank 1 (n1)"), std::string::npos);
  EXPECT_EQ(link.status().message().find("no_such_thing"), std::string::npos);
}

TEST(TcpLinkTest, NeverTakesBbrByItself) {
  base::FdPair pair = make_tcp_pair();
  const int socket = pair.first.get();
  const auto link = TcpLink::create(std::move(pair.first), "rank 1 (n1)", {});
  ASSERT_TRUE(link.ok());
  EXPECT_NE(congestion_of(socket), "bbr");
}

// BBR that has begun on a connection goes on pacing it: the options have to be there before.
TEST(TcpLinkTest, ConnectionsOfAListenerNeverBeginWithBbr) {
  const auto listener = base::listen_on(base::IpAddress::parse("127.0.0.1").value(), 0, 1).value();
  ASSERT_TRUE(apply(TcpOptions{}, listener.get()).ok());
  const auto to =
      base::make_sockaddr(base::IpAddress::parse("127.0.0.1").value(), base::local_port(listener.get()).value());
  const base::UniqueFd caller(::socket(to.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_TRUE(apply(TcpOptions{}, caller.get()).ok());
  ASSERT_EQ(::connect(caller.get(), to.get(), to.size), 0);
  const base::UniqueFd accepted(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  EXPECT_NE(congestion_of(accepted.get()), "bbr");
  EXPECT_NE(congestion_of(caller.get()), "bbr");
}

TEST(TcpLinkTest, AResetIsABrokenConnection) {
  base::FdPair pair = make_tcp_pair();
  const auto link = TcpLink::create(std::move(pair.first), "rank 1 (n1)", {}).value();
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  ASSERT_EQ(::setsockopt(pair.second.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)), 0);
  pair.second.reset();
  Bytes place(8);
  std::ptrdiff_t moved = 0;
  while (moved == 0) moved = link->try_receive(place);
  EXPECT_EQ(moved, -1);
  EXPECT_NE(link->why().message().find("the connection to rank 1 (n1) broke"), std::string::npos) << link->why();
}

}  // namespace
}  // namespace muster::collectives::link_test
