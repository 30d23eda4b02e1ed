// Ranks that meet through a store of texts, which is a variable of the test here.
#include "collectives/join/meeting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <thread>

#include "base/clock.h"
#include "collectives/join/alone_file.h"

namespace muster::collectives::meeting_test {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

class TextStore {
 public:
  void set(std::string text) {
    const std::lock_guard lock(mutex_);
    text_ = std::move(text);
  }
  std::string get() {
    const std::lock_guard lock(mutex_);
    ++looks_;
    return text_;
  }
  int looks() {
    const std::lock_guard lock(mutex_);
    return looks_;
  }
  Meeting meeting(int rank, int size) {
    return {.rank = rank,
            .size = size,
            .publish =
                [this](const std::string& text) {
                  set(text);
                  return base::ok_status();
                },
            .find = [this]() -> base::Result<std::string> { return get(); }};
  }

 private:
  std::mutex mutex_;
  std::string text_;
  int looks_ = 0;
};

// Accepts the place with this port alone, without a connection.
Reach reach_port(std::uint16_t port) {
  return [port](const AlonePlace& place, milliseconds) -> base::Result<base::UniqueFd> {
    if (place.port == port) return base::UniqueFd();
    return base::unavailable("nobody listens at port {}", place.port);
  };
}

std::string text_with_port(std::uint16_t port) {
  return encode_place({std::string(32, 's'), {*base::IpAddress::parse("127.0.0.1")}, port});
}

TEST(MeetingTest, PublishesWhereRankZeroListens) {
  TextStore store;
  const auto host = open_meeting(store.meeting(0, 2), "127.0.0.1");
  ASSERT_TRUE(host.ok()) << host.status();
  const auto place = decode_place(store.get());
  ASSERT_TRUE(place.ok()) << place.status();
  EXPECT_EQ(place->secret, host->place.secret);
  EXPECT_EQ(place->port, *base::local_port(host->listening.get()));
  EXPECT_EQ(place->addresses.front().str(), "127.0.0.1");
  const auto again = open_meeting(store.meeting(0, 2), "");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_NE(again->place.secret, host->place.secret);
}

TEST(MeetingTest, FailsIfTheTextCannotBePublished) {
  TextStore store;
  Meeting meeting = store.meeting(0, 2);
  meeting.publish = [](const std::string&) { return base::unavailable("the store is gone"); };
  EXPECT_THAT(open_meeting(meeting, "").status().message(), HasSubstr("the store is gone"));
  EXPECT_EQ(open_meeting(store.meeting(0, 2), "eth0").status().code(), base::Code::kInvalidArgument);
}

TEST(MeetingTest, WaitsForTheText) {
  TextStore store;
  std::thread rank_0([&] {
    while (store.looks() < 3) std::this_thread::yield();
    store.set(text_with_port(80));
  });
  const auto guest = join_meeting(store.meeting(1, 2), reach_port(80), milliseconds(20'000));
  rank_0.join();
  ASSERT_TRUE(guest.ok()) << guest.status();
  EXPECT_EQ(guest->place.port, 80);
}

TEST(MeetingTest, LooksAgainWhileTheTextIsOfAnOlderWorld) {
  TextStore store;
  store.set(text_with_port(79));
  std::thread rank_0([&] {
    while (store.looks() < 3) std::this_thread::yield();
    store.set("not a place");
    while (store.looks() < 6) std::this_thread::yield();
    store.set(text_with_port(80));
  });
  const auto guest = join_meeting(store.meeting(1, 2), reach_port(80), milliseconds(20'000));
  rank_0.join();
  EXPECT_TRUE(guest.ok()) << guest.status();
}

TEST(MeetingTest, SaysAtTheDeadlineWhatFailedLast) {
  TextStore store;
  const auto none = join_meeting(store.meeting(1, 2), reach_port(80), milliseconds(20));
  EXPECT_EQ(none.status().code(), base::Code::kDeadlineExceeded);
  EXPECT_THAT(none.status().message(), HasSubstr("rank 0 has not published its address"));
  store.set(text_with_port(79));
  const auto stale = join_meeting(store.meeting(1, 2), reach_port(80), milliseconds(20));
  EXPECT_THAT(stale.status().message(), HasSubstr("nobody listens at port 79"));
}

TEST(MeetingTest, EndsWhenTheWorldCanNoLongerForm) {
  TextStore store;
  Meeting meeting = store.meeting(1, 2);
  meeting.check = [&] { return store.looks() < 3 ? base::ok_status() : base::unavailable("rank 0 has ended"); };
  EXPECT_EQ(join_meeting(meeting, reach_port(80), milliseconds(20'000)).status().message(), "rank 0 has ended");
  meeting.check = {};
  meeting.find = []() -> base::Result<std::string> { return base::unavailable("the store is gone"); };
  EXPECT_EQ(join_meeting(meeting, reach_port(80), milliseconds(20'000)).status().message(), "the store is gone");
}

}  // namespace
}  // namespace muster::collectives::meeting_test
