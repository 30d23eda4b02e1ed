#include "collectives/join/session.h"

#include <gtest/gtest.h>

#include <future>

#include "rendezvous/session_stream.h"
#include "tests/unit/collectives/join/session_world.h"

namespace muster::collectives::session_test {
namespace {

using std::chrono::milliseconds;

TEST(SessionTest, TheGenerationComesWithTheWelcome) {
  ServedHost host(2);
  TestRank first(1, host.connect(1));
  TestRank again(1, host.connect(1));
  ASSERT_TRUE(first.status().ok()) << first.status();
  EXPECT_EQ(first->generation(), 0U);
  EXPECT_EQ(again->generation(), 1U);
}

TEST(SessionTest, WaitsForWhatAnotherRankPuts) {
  ServedHost host(2);
  TestRank a(0, host.connect(0));
  TestRank b(1, host.connect(1));
  auto waiting = std::async(std::launch::async, [&] { return a->wait("key", kTestDeadline); });
  std::promise<std::string> watched;
  a->watch("key", [&](std::string value) { watched.set_value(std::move(value)); });
  const std::string large(3 << 20, 'x');
  EXPECT_TRUE(b->put("key", large, kTestDeadline).ok());
  EXPECT_EQ(waiting.get().value(), large);
  EXPECT_EQ(watched.get_future().get(), large);
  EXPECT_EQ(a->wait("key", kTestDeadline).value(), large);
  b->put_and_forget("key", "last words");
  EXPECT_TRUE(b->put("other", "", kTestDeadline).ok());
  EXPECT_EQ(b->wait("key", kTestDeadline).value(), "last words");
}

TEST(SessionTest, ManyThreadsAskAtOnce) {
  ServedHost host(2);
  TestRank a(0, host.connect(0));
  TestRank b(1, host.connect(1));
  constexpr int kThreads = 8;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      const std::string key = "key" + std::to_string(i);
      for (int k = 0; k < 50; ++k) {
        const std::string own = key + "/" + std::to_string(k);
        if (i % 2 == 0) {
          EXPECT_TRUE(a->put(own, own, kTestDeadline).ok());
          EXPECT_EQ(b->wait(own, kTestDeadline).value(), own);
        } else {
          EXPECT_TRUE(b->put(own, own, kTestDeadline).ok());
          EXPECT_EQ(a->wait(own, kTestDeadline).value(), own);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(SessionTest, ADeadlineEndsAWaitAndTheSessionGoesOn) {
  ServedHost host(1);
  TestRank rank(0, host.connect(0));
  const auto late = rank->wait("never", milliseconds(20));
  EXPECT_EQ(late.status().code(), base::Code::kDeadlineExceeded);
  EXPECT_EQ(late.status().message(), "wait for never: no answer within the deadline");
  EXPECT_TRUE(rank->put("never", "now", kTestDeadline).ok());
  EXPECT_EQ(rank->wait("never", milliseconds::max()).value(), "now");
}

TEST(SessionTest, WhatIsNotWatchedAnyMoreIsNotTold) {
  ServedHost host(1);
  TestRank rank(0, host.connect(0));
  bool was_told = false;
  const auto id = rank->watch("key", [&](const std::string&) { was_told = true; });
  rank->unwatch(id);
  EXPECT_TRUE(rank->put("key", "value", kTestDeadline).ok());
  EXPECT_EQ(rank->wait("key", kTestDeadline).value(), "value");  // answers come in order
  EXPECT_FALSE(was_told);
}

TEST(SessionTest, WhatTheHostRefusesIsTold) {
  ServedHost host(1, {.max_keys = 1});
  TestRank rank(0, host.connect(0));
  EXPECT_TRUE(rank->put("one", "1", kTestDeadline).ok());
  const base::Status full = rank->put("two", "2", kTestDeadline);
  EXPECT_EQ(full.code(), base::Code::kResourceExhausted);
  EXPECT_EQ(full.message(), "put two: rank 0's store is full: 1 keys, 4 bytes");
  EXPECT_EQ(rank->put("k", std::string(rendezvous::kMaxSessionValue + 1, 'v'), kTestDeadline).code(),
            base::Code::kInvalidArgument);
}

TEST(SessionTest, WhenTheHostGoesAllThatWaitFail) {
  auto host = std::make_unique<ServedHost>(1);
  TestRank rank(0, host->connect(0));
  auto waiting = std::async(std::launch::async, [&] { return rank->wait("never", kTestDeadline); });
  EXPECT_TRUE(rank->put("key", "value", kTestDeadline).ok());
  host.reset();
  EXPECT_EQ(waiting.get().status().code(), base::Code::kUnavailable);
  EXPECT_TRUE(rank.hears("lost: "));  // closed, or reset because it had not read everything
  EXPECT_EQ(rank->put("key", "value", kTestDeadline).code(), base::Code::kUnavailable);
  EXPECT_EQ(rank.news().size(), 1U);
}

// What the other end sends, by hand.
class PlayedHostTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto pair = base::make_socketpair(SOCK_STREAM).value();
    host_ = std::move(pair.first);
    rank_ = std::move(pair.second);
  }
  void host_says(const rendezvous::SessionMessage& message) {
    const std::string frame = rendezvous::encode_session(message);
    ASSERT_TRUE(base::write_all_blocking(host_.get(), frame.data(), frame.size()).ok());
  }
  base::UniqueFd host_;
  base::UniqueFd rank_;
};

TEST_F(PlayedHostTest, NewsBehindTheWelcomeIsNotReadByConnect) {
  host_says(rendezvous::SessionWelcome{1, std::string(32, 's'), 4});
  host_says(rendezvous::SessionEnded{3, true, "exited with 1"});
  TestRank rank(0, std::move(rank_));
  ASSERT_TRUE(rank.status().ok()) << rank.status();
  EXPECT_EQ(rank->generation(), 4U);
  EXPECT_TRUE(rank.hears("rank 3 failed: exited with 1"));
}

TEST_F(PlayedHostTest, HostsThatFallSilentAreNews) {
  host_says(rendezvous::SessionWelcome{2, std::string(32, 's'), 0});
  host_says(rendezvous::SessionSilence{3, true});
  host_says(rendezvous::SessionSilence{3, false});
  TestRank rank(0, std::move(rank_));
  ASSERT_TRUE(rank.status().ok()) << rank.status();
  EXPECT_TRUE(rank.hears("rank 3 is silent"));
  EXPECT_TRUE(rank.hears("rank 3 answers"));
}

TEST_F(PlayedHostTest, NoAnswerIsADeadline) {
  const auto session = Session::connect(std::move(rank_), 2, {}, milliseconds(20));
  EXPECT_EQ(session.status().code(), base::Code::kDeadlineExceeded);
  EXPECT_EQ(session.status().message(), "session of rank 2: the host of the session does not answer");
}

TEST_F(PlayedHostTest, AClosedOneIsNotWanted) {
  ASSERT_EQ(::shutdown(host_.get(), SHUT_WR), 0);
  EXPECT_EQ(Session::connect(std::move(rank_), 2, {}, kTestDeadline).status().code(), base::Code::kUnavailable);
}

TEST_F(PlayedHostTest, AnotherVersionIsNamed) {
  host_says(rendezvous::SessionWelcome{7, std::string(32, 's'), 0});
  EXPECT_EQ(Session::connect(std::move(rank_), 2, {}, kTestDeadline).status().code(), base::Code::kFailedPrecondition);
}

TEST_F(PlayedHostTest, WhatOnlyRanksSendLosesTheSession) {
  host_says(rendezvous::SessionWelcome{1, std::string(32, 's'), 0});
  host_says(rendezvous::SessionGoodbye{});
  TestRank rank(0, std::move(rank_));
  EXPECT_TRUE(rank.hears("lost: the host of the session sent what only a rank may send"));
}

}  // namespace
}  // namespace muster::collectives::session_test
