#include "launcherd/run/input_feed.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/input_window.h"

namespace muster::launcherd::input_feed_test {
namespace {

using proto::kInputPiece;
using proto::kInputWindow;
using ::testing::ElementsAre;

struct Sent {
  std::vector<int> ranks;
  std::string bytes;
  bool ends;
};

// Notes what the feed calls.
class FakeSource final : public InputSource {
 public:
  void prepare() override { ++prepares; }
  void start(InputFeed& the_feed) override { feed = &the_feed; }
  void has_room() override { ++wakes; }
  void stop() override {
    feed = nullptr;
    ++stops;
  }
  InputFeed* feed = nullptr;
  int prepares = 0;
  int wakes = 0;
  int stops = 0;
};

class InputFeedTest : public ::testing::Test {
 protected:
  std::unique_ptr<InputFeed> make(const std::vector<int>& ranks) {
    return std::make_unique<InputFeed>(ranks, &source, send());
  }
  InputFeed::Send send() {
    return [this](const std::vector<int>& ranks, std::string_view bytes, bool ends) {
      sent.push_back({ranks, std::string(bytes), ends});
    };
  }
  std::size_t bytes_sent() const {
    std::size_t count = 0;
    for (const Sent& one : sent) count += one.bytes.size();
    return count;
  }

  FakeSource source;
  std::vector<Sent> sent;
};

TEST_F(InputFeedTest, NothingIsReadBeforeEveryReaderRuns) {
  const auto feed = make({1, 2});
  EXPECT_EQ(feed->room(), 0U);
  feed->started(0);
  feed->started(1);
  EXPECT_EQ(source.feed, nullptr);
  EXPECT_EQ(feed->room(), 0U);
  feed->started(2);
  EXPECT_EQ(source.feed, feed.get());
  EXPECT_EQ(feed->room(), kInputWindow);
}

TEST_F(InputFeedTest, AWindowIsSentInPiecesAndThenWaitedFor) {
  const auto feed = make({0});
  feed->started(0);
  feed->give(std::string(kInputWindow, 'x'));
  EXPECT_EQ(feed->room(), 0U);
  EXPECT_EQ(bytes_sent(), kInputWindow);
  for (const Sent& one : sent) EXPECT_LE(one.bytes.size(), kInputPiece);
  EXPECT_EQ(source.wakes, 0);
  feed->taken(0, 10, false);
  EXPECT_EQ(feed->room(), 10U);
  EXPECT_EQ(source.wakes, 1);
  feed->taken(0, 10, false);
  EXPECT_EQ(source.wakes, 1) << "it knew that there is room";
  feed->taken(0, kInputWindow * 9, false);
  EXPECT_EQ(feed->room(), kInputWindow) << "an agent cannot take more than it was sent";
}

TEST_F(InputFeedTest, TheSlowestRankHoldsTheOthersUntilItGoes) {
  const auto feed = make({0, 1, 2});
  for (const int rank : {0, 1, 2}) feed->started(rank);
  feed->give(std::string(kInputWindow, 'x'));
  EXPECT_THAT(sent.at(0).ranks, ElementsAre(0, 1, 2));
  feed->taken(0, kInputWindow, false);
  feed->taken(1, kInputWindow, false);
  EXPECT_EQ(feed->room(), 0U);
  feed->rank_over(2);
  EXPECT_EQ(feed->room(), kInputWindow);
  EXPECT_EQ(source.wakes, 1);
  feed->give("y");
  EXPECT_THAT(sent.back().ranks, ElementsAre(0, 1));
}

TEST_F(InputFeedTest, ARankThatDoesNotStartIsNotWaitedFor) {
  const auto feed = make({0, 1});
  feed->started(0);
  feed->rank_over(1);
  EXPECT_EQ(source.feed, feed.get());
}

TEST_F(InputFeedTest, TheEndIsSentOnceAndTheSourceIsStoppedWhenTheRanksAreOver) {
  const auto feed = make({3});
  feed->started(3);
  feed->give("x");
  feed->end();
  feed->end();
  EXPECT_EQ(feed->room(), 0U);
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_TRUE(sent[1].ends && sent[1].bytes.empty());
  EXPECT_EQ(source.stops, 0);
  feed->rank_over(3);
  EXPECT_EQ(source.stops, 1);
}

TEST_F(InputFeedTest, SendsNothingToARankThatHasClosedItsStdin) {
  const auto feed = make({0, 1});
  feed->started(0);
  feed->started(1);
  feed->taken(0, 0, true);
  feed->give("x");
  EXPECT_THAT(sent.back().ranks, ElementsAre(1));
  feed->taken(1, 1, true);
  EXPECT_EQ(source.stops, 1);
  EXPECT_EQ(feed->room(), 0U);
}

TEST_F(InputFeedTest, ClosedItStopsTheSourceOnceAndForAll) {
  auto feed = make({0});
  feed->started(0);
  feed->close();
  EXPECT_EQ(source.stops, 1);
  EXPECT_EQ(feed->room(), 0U);
  feed->started(0);
  feed->rank_over(0);
  feed.reset();
  EXPECT_EQ(source.stops, 1);
}

TEST_F(InputFeedTest, ASourceThatWasOnlyPreparedIsStopped) {
  auto feed = make({0});
  EXPECT_EQ(source.prepares, 1);
  EXPECT_EQ(source.feed, nullptr);
  feed.reset();
  EXPECT_EQ(source.stops, 1);
}

TEST_F(InputFeedTest, WithoutASourceTheInputEndsAtOnce) {
  InputFeed feed({0}, nullptr, send());
  feed.started(0);
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_TRUE(sent[0].ends);
  EXPECT_EQ(feed.room(), 0U);
}

}  // namespace
}  // namespace muster::launcherd::input_feed_test
