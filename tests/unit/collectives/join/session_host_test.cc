#include "collectives/join/session_host.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/collectives/join/session_world.h"

namespace muster::collectives::session_host_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kDied = "rank 1 failed: lost its connection (it has probably died)";

TEST(SessionHostTest, ADeathIsToldToAllOthersAndToThoseThatComeLater) {
  ServedHost host(4);
  TestRank zero(0, host.connect(0));
  TestRank two(2, host.connect(2));
  { const TestRank one(1, host.connect(1)); }
  EXPECT_TRUE(zero.hears(kDied));
  EXPECT_TRUE(two.hears(kDied));
  TestRank three(3, host.connect(3));
  EXPECT_TRUE(three.hears(kDied));
  EXPECT_THAT(zero.news(), ElementsAre(kDied));
}

TEST(SessionHostTest, ADroppedRankIsReportedThoughItsConnectionIsOpen) {
  SessionHost host(3);
  std::vector<base::UniqueFd> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    auto pair = base::make_socketpair(SOCK_STREAM).value();
    const int fd = pair.first.get();
    host.add(rank, std::move(pair.first));
    ranks.push_back(std::move(pair.second));
    const std::string hello = rendezvous::encode_session(rendezvous::SessionHello{1, rank});
    ASSERT_TRUE(base::write_all_blocking(ranks.back().get(), hello.data(), hello.size()).ok());
    host.on_ready(fd);
  }
  host.drop(2);
  host.drop(2);
  EXPECT_EQ(host.connections(), 2U);
  char bytes[4096];
  const ssize_t got = read(ranks[1].get(), bytes, sizeof bytes);
  ASSERT_GT(got, 0);
  EXPECT_THAT(std::string(bytes, static_cast<std::size_t>(got)), HasSubstr("lost its connection"));
}

TEST(SessionHostTest, AGoodbyeIsNoFailure) {
  ServedHost host(2);
  TestRank zero(0, host.connect(0));
  {
    TestRank one(1, host.connect(1));
    one->send_goodbye();
  }
  EXPECT_TRUE(zero.hears("rank 1 ended: has left"));
}

// News are on their way to it when it has just closed its end: what it said before counts.
TEST(SessionHostTest, AGoodbyeThatIsNotReadYetIsNoFailure) {
  SessionHost host(3);
  std::vector<base::UniqueFd> ranks;
  std::vector<int> hosts_ends;
  for (int rank = 0; rank < 3; ++rank) {
    auto pair = base::make_socketpair(SOCK_STREAM).value();
    hosts_ends.push_back(pair.first.get());
    host.add(rank, std::move(pair.first));
    ranks.push_back(std::move(pair.second));
    const std::string hello = rendezvous::encode_session(rendezvous::SessionHello{1, rank});
    ASSERT_TRUE(base::write_all_blocking(ranks.back().get(), hello.data(), hello.size()).ok());
    host.on_ready(hosts_ends.back());
  }
  const std::string goodbye = rendezvous::encode_session(rendezvous::SessionGoodbye{});
  for (const std::size_t rank : {1U, 2U}) {
    ASSERT_TRUE(base::write_all_blocking(ranks[rank].get(), goodbye.data(), goodbye.size()).ok());
    ranks[rank].reset();
  }
  host.on_ready(hosts_ends[2]);  // and rank 1 is told
  EXPECT_EQ(host.connections(), 1U);
  std::vector<std::string> news;
  rendezvous::SessionStream zero(std::move(ranks[0]), 1 << 20);
  ASSERT_TRUE(zero.read([&](const rendezvous::SessionMessage& message) {
                    const auto* const ended = std::get_if<rendezvous::SessionEnded>(&message);
                    if (ended != nullptr) {
                      news.push_back(
                          fmt::format("rank {} {}: {}", ended->rank, ended->failed ? "failed" : "ended", ended->cause));
                    }
                    return base::ok_status();
                  })
                  .ok());
  EXPECT_THAT(news, ElementsAre("rank 2 ended: has left", "rank 1 ended: has left"));
}

TEST(SessionHostTest, ARankThatHasLeftOneWorldIsNotMissedInTheNext) {
  ServedHost host(3);
  TestRank zero(0, host.connect(0));
  TestRank two(2, host.connect(2));
  TestRank two_next(2, host.connect(2));  // is ahead of the others
  {
    TestRank one(1, host.connect(1));
    one->send_goodbye();
  }
  EXPECT_TRUE(zero.hears("rank 1 ended: has left"));
  EXPECT_TRUE(two.hears("rank 1 ended: has left"));
  TestRank zero_next(0, host.connect(0));
  TestRank one_next(1, host.connect(1));
  EXPECT_EQ(one_next->generation(), 1U);
  EXPECT_TRUE(one_next->put("key", "value", kTestDeadline).ok());
  EXPECT_EQ(zero_next->wait("key", kTestDeadline).value(), "value");
  EXPECT_EQ(two_next->wait("key", kTestDeadline).value(), "value");
  EXPECT_THAT(zero_next.news(), IsEmpty());
  EXPECT_THAT(two_next.news(), IsEmpty());
}

TEST(SessionHostTest, WaitsOfARankThatIsGoneAreForgotten) {
  ServedHost host(2, {.max_waits = 2});
  TestRank zero(0, host.connect(0));
  {
    TestRank one(1, host.connect(1));
    one->watch("a", [](const std::string&) {});
    one->watch("b", [](const std::string&) {});
    EXPECT_TRUE(one->put("c", "", kTestDeadline).ok());
    EXPECT_EQ(zero->wait("d", kTestDeadline).status().code(), base::Code::kResourceExhausted);
  }
  EXPECT_TRUE(zero.hears(kDied));
  EXPECT_EQ(zero->wait("d", std::chrono::milliseconds(20)).status().code(), base::Code::kDeadlineExceeded);
  EXPECT_TRUE(zero->put("a", "1", kTestDeadline).ok());
}

TEST(SessionHostTest, WhoIsNotTheRankOfItsHandshakeIsCutOff) {
  ServedHost host(3);
  TestRank zero(0, host.connect(0));
  const TestRank liar(1, host.connect(2));
  EXPECT_EQ(liar.status().code(), base::Code::kUnavailable);
  const TestRank outside(7, host.connect(7));
  EXPECT_EQ(outside.status().code(), base::Code::kUnavailable);
  EXPECT_TRUE(zero->put("key", "value", kTestDeadline).ok());
  EXPECT_THAT(zero.news(), IsEmpty());
  const auto problems = host.problems(2);
  ASSERT_EQ(problems.size(), 2U);
  EXPECT_THAT(problems[0].message(), HasSubstr("session of rank 2: its hello names rank 1"));
  EXPECT_THAT(problems[1].message(), HasSubstr("session of rank 7: refused"));
}

TEST(SessionHostTest, TheSecretDoesNotTravelOverTheConnection) {
  ServedHost host(2);
  const base::UniqueFd one = host.connect(1);
  const std::string hello = rendezvous::encode_session(rendezvous::SessionHello{1, 1});
  ASSERT_TRUE(base::write_all_blocking(one.get(), hello.data(), hello.size()).ok());
  const std::size_t size = rendezvous::encode_session(rendezvous::SessionWelcome{1, std::string(32, 's'), 0}).size();
  std::string welcome(size, '\0');
  ASSERT_EQ(::recv(one.get(), welcome.data(), size, MSG_WAITALL), static_cast<ssize_t>(size));
  EXPECT_THAT(welcome, Not(HasSubstr("ssss")));
}

TEST(SessionHostTest, ConnectionsOfARankAreBounded) {
  ServedHost host(1, {.max_connections_of_rank = 2});
  TestRank first(0, host.connect(0));
  TestRank second(0, host.connect(0));
  EXPECT_TRUE(second.status().ok());
  EXPECT_EQ(TestRank(0, host.connect(0)).status().code(), base::Code::kUnavailable);
  EXPECT_TRUE(first->put("key", "value", kTestDeadline).ok());
}

TEST(SessionHostTest, WhoBreaksTheProtocolIsGone) {
  ServedHost host(2);
  TestRank zero(0, host.connect(0));
  const base::UniqueFd one = host.connect(1);
  const std::string bytes = rendezvous::encode_session(rendezvous::SessionHello{1, 1}) +
                            rendezvous::encode_session(rendezvous::SessionHello{1, 1});
  ASSERT_TRUE(base::write_all_blocking(one.get(), bytes.data(), bytes.size()).ok());
  EXPECT_TRUE(zero.hears(kDied));
  const auto problems = host.problems(1);
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems[0].message(), "session of rank 1: the rank sent a second hello");
}

TEST(SessionHostTest, WhoDoesNotReadIsCutOffAndHoldsUpNobody) {
  ServedHost host(2, {.max_queued_bytes = 1 << 20});
  TestRank zero(0, host.connect(0));
  const base::UniqueFd one = host.connect(1);
  std::string bytes = rendezvous::encode_session(rendezvous::SessionHello{1, 1});
  for (std::uint64_t id = 0; id < 8; ++id) {
    bytes += rendezvous::encode_session(rendezvous::SessionWait{id, "large"});
  }
  ASSERT_TRUE(base::write_all_blocking(one.get(), bytes.data(), bytes.size()).ok());
  EXPECT_TRUE(zero->put("large", std::string(300'000, 'x'), kTestDeadline).ok());
  EXPECT_TRUE(zero.hears(kDied));
  EXPECT_EQ(zero->wait("large", kTestDeadline).value().size(), 300'000U);
}

}  // namespace
}  // namespace muster::collectives::session_host_test
