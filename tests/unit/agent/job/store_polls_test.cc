#include "agent/job/store_polls.h"

#include <gtest/gtest.h>

namespace muster::agent::store_polls_test {
namespace {

// The socket of a connection is its port here, and each process has the sockets that the test gives it.
class StorePollsTest : public ::testing::Test {
 protected:
  void poll(std::uint16_t port, std::string_view key) {
    ASSERT_TRUE(on_missing_) << "nobody watches";
    const base::IpAddress here = base::IpAddress::parse("127.0.0.1").value();
    on_missing_({.peer = here, .peer_port = port, .local = here, .local_port = 1}, "global", key);
  }
  std::string awaited(int rank, base::MonotonicTime begin) const {
    const auto awaited = polls_.awaited(rank, begin);
    return awaited ? awaited->what : "nothing";
  }

  rendezvous::HorovodServer::OnMissing on_missing_;
  int matches_ = 0;
  StorePolls polls_{[this](rendezvous::HorovodServer::OnMissing on_missing) { on_missing_ = std::move(on_missing); },
                    [this](const rendezvous::ConnectionEnds& ends) -> std::optional<std::uint64_t> {
                      ++matches_;
                      if (ends.peer_port == 0) return std::nullopt;
                      return ends.peer_port;
                    },
                    [](pid_t pid, std::uint64_t socket) { return static_cast<std::uint64_t>(pid) == socket / 100; }};
};

TEST_F(StorePollsTest, FindsTheRankOfAPoll) {
  const auto began = base::monotonic_now();
  auto watch = polls_.begin({{0, 10}, {1, 11}});
  poll(1101, "2");
  poll(1102, "2");
  poll(0, "3");
  poll(4000, "3");
  EXPECT_EQ(awaited(1, began), "the key \"global/2\" in Horovod's store");
  EXPECT_EQ(awaited(0, began), "nothing");
  EXPECT_EQ(awaited(7, began), "nothing");
  watch.reset();
  EXPECT_FALSE(on_missing_) << "the watch has ended";
}

TEST_F(StorePollsTest, TheFirstOfSeveralKeysCounts) {
  const auto began = base::monotonic_now();
  const auto watch = polls_.begin({{1, 11}});
  for (const char* key : {"3", "2", "3", "4"}) poll(1101, key);
  EXPECT_EQ(awaited(1, began), "the key \"global/2\" in Horovod's store");
}

TEST_F(StorePollsTest, KnowsHowLongAcrossWatches) {
  auto watch = polls_.begin({{1, 11}});
  poll(1101, "2");
  const auto since = polls_.awaited(1, {})->since;
  watch.reset();
  watch = polls_.begin({{1, 11}});
  const auto began = base::monotonic_now();
  EXPECT_EQ(awaited(1, began), "nothing") << "it has not asked since";
  poll(1102, "2");
  EXPECT_EQ(polls_.awaited(1, began)->since, since);
  poll(1103, "1");
  EXPECT_GT(polls_.awaited(1, began)->since, since) << "another key";
  polls_.keep_only({{0, 10}});
  EXPECT_EQ(awaited(1, {}), "nothing");
}

TEST_F(StorePollsTest, MatchesABoundedNumber) {
  const auto watch = polls_.begin({{0, 10}, {1, 11}});
  for (int i = 0; i < 100; ++i) poll(4000, "2");
  EXPECT_EQ(matches_, 8);
}

TEST_F(StorePollsTest, WatchesEndWithTheLastOne) {
  auto one = polls_.begin({{0, 10}});
  auto two = polls_.begin({{0, 10}});
  one.reset();
  EXPECT_TRUE(on_missing_);
  two.reset();
  EXPECT_FALSE(on_missing_);
}

}  // namespace
}  // namespace muster::agent::store_polls_test
