#include "agent/process/message_socket.h"

#include <sys/socket.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace muster::agent::message_socket_test {
namespace {

struct Pair {
  MessageSocket a;
  MessageSocket b;
};

Pair make_pair_of_sockets() {
  auto pair = base::make_socketpair(SOCK_STREAM | SOCK_NONBLOCK);
  EXPECT_TRUE(pair.ok());
  return {MessageSocket(std::move(pair->first)), MessageSocket(std::move(pair->second))};
}

TEST(MessageSocketTest, MessagesArriveWholeAndInOrder) {
  Pair pair = make_pair_of_sockets();
  pair.a.send("one");
  pair.a.send("");
  pair.a.send("three");
  ASSERT_TRUE(pair.a.flush().ok());
  const auto got = pair.b.receive();
  ASSERT_TRUE(got.ok());
  ASSERT_EQ(got->size(), 3U);
  EXPECT_EQ((*got)[0].payload, "one");
  EXPECT_EQ((*got)[1].payload, "");
  EXPECT_EQ((*got)[2].payload, "three");
  EXPECT_TRUE(pair.b.receive()->empty());
}

TEST(MessageSocketTest, MoreThanTheSocketTakesWaitsWithoutBlocking) {
  Pair pair = make_pair_of_sockets();
  const std::string big(3u << 20, 'x');
  pair.a.send(big);
  pair.a.send("end");
  ASSERT_TRUE(pair.a.flush().ok());
  EXPECT_TRUE(pair.a.wants_to_write());
  std::vector<SocketMessage> all;
  while (all.size() < 2) {
    auto got = pair.b.receive();
    ASSERT_TRUE(got.ok());
    for (SocketMessage& message : *got) all.push_back(std::move(message));
    ASSERT_TRUE(pair.a.flush().ok());
  }
  EXPECT_EQ(all[0].payload, big);
  EXPECT_EQ(all[1].payload, "end");
  EXPECT_FALSE(pair.a.wants_to_write());
}

TEST(MessageSocketTest, DescriptorsStayWithTheirMessage) {
  Pair pair = make_pair_of_sockets();
  pair.a.send("none");
  for (int i = 0; i < 20; ++i) {
    auto pipe = base::make_pipe();
    ASSERT_TRUE(pipe.ok());
    const char byte = static_cast<char>(i);
    ASSERT_EQ(::write(pipe->second.get(), &byte, 1), 1);
    std::vector<base::UniqueFd> fds;
    fds.push_back(std::move(pipe->first));
    fds.push_back(std::move(pipe->second));
    pair.a.send(std::string(static_cast<std::size_t>(i) * 1000, 'x'), std::move(fds));
  }
  ASSERT_TRUE(pair.a.flush().ok());
  const auto got = pair.b.receive();
  ASSERT_TRUE(got.ok());
  ASSERT_EQ(got->size(), 21U);
  EXPECT_TRUE((*got)[0].fds.empty());
  for (std::size_t i = 0; i < 20; ++i) {
    ASSERT_EQ((*got)[i + 1].fds.size(), 2U);
    char byte = 0;
    ASSERT_EQ(::read((*got)[i + 1].fds[0].get(), &byte, 1), 1);
    EXPECT_EQ(byte, static_cast<char>(i));
  }
}

TEST(MessageSocketTest, TheEndOfThePeerComesAfterItsMessages) {
  Pair pair = make_pair_of_sockets();
  pair.a.send("last");
  ASSERT_TRUE(pair.a.flush().ok());
  pair.a.close();
  const auto got = pair.b.receive();
  ASSERT_TRUE(got.ok());
  ASSERT_EQ(got->size(), 1U);
  EXPECT_TRUE(pair.b.peer_gone());
  pair.b.send("too late");
  EXPECT_FALSE(pair.b.flush().ok());
}

}  // namespace
}  // namespace muster::agent::message_socket_test
