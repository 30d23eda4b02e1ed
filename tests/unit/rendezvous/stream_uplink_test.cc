#include "rendezvous/stream_uplink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace muster::rendezvous::stream_uplink_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class StreamUplinkTest : public ::testing::Test {
 protected:
  ByteStreams::Events events(const std::string& name) {
    return {.on_bytes = [this, name](std::string_view bytes) { seen_.push_back(name + " " + std::string(bytes)); },
            .on_credit = [this, name](std::size_t size) { seen_.push_back(name + " +" + std::to_string(size)); },
            .on_closed = [this, name] { seen_.push_back(name + " closed"); }};
  }

  bool is_connected_ = true;
  std::vector<std::string> sent_;
  std::vector<std::string> seen_;
  StreamUplink uplink_{[this](const HorovodFrame& frame, const HorovodValue& value) {
    if (!is_connected_) return false;
    const char* const kinds[] = {"open", "bytes", "credit", "close", "ask"};
    const int kind = static_cast<int>(frame.kind) - static_cast<int>(HorovodFrameKind::kStreamOpen);
    const bool is_bytes = frame.kind == HorovodFrameKind::kStreamBytes;
    sent_.push_back(std::to_string(frame.id) + " " + kinds[kind] + std::string(frame.key.empty() ? "" : " ") +
                    std::string(frame.key) + (is_bytes ? " " + *value : ""));
    return true;
  }};
};

TEST_F(StreamUplinkTest, CarriesEachStreamInBothDirections) {
  const auto one = uplink_.open("n2", events("one"));
  const auto two = uplink_.open("n2", events("two"));
  uplink_.send(one, "ask");
  uplink_.credit(two, 7);
  EXPECT_THAT(sent_, ElementsAre("1 open n2", "2 open n2", "1 bytes ask", "2 credit"));
  ASSERT_TRUE(uplink_.on_frame({.kind = HorovodFrameKind::kStreamBytes, .id = two, .value = "reply"}).ok());
  const HorovodValue credit = stream_credit(3);
  ASSERT_TRUE(uplink_.on_frame({.kind = HorovodFrameKind::kStreamCredit, .id = one, .value = *credit}).ok());
  ASSERT_TRUE(uplink_.on_frame({.kind = HorovodFrameKind::kStreamClose, .id = two}).ok());
  EXPECT_THAT(seen_, ElementsAre("two reply", "one +3", "two closed"));
  uplink_.close(one);
  EXPECT_EQ(sent_.back(), "1 close");
  EXPECT_EQ(uplink_.size(), 0U);
  ASSERT_TRUE(uplink_.on_frame({.kind = HorovodFrameKind::kStreamBytes, .id = one, .value = "late"}).ok());
  EXPECT_EQ(seen_.size(), 3U) << "it was closed here";
}

TEST_F(StreamUplinkTest, StreamsWaitForTheFirstLinkAndEndWithIt) {
  is_connected_ = false;
  const auto one = uplink_.open("n2", events("one"));
  uplink_.send(one, "a");
  uplink_.send(one, "b");
  uplink_.lost();
  EXPECT_THAT(seen_, IsEmpty()) << "nothing was under way";
  is_connected_ = true;
  uplink_.connected();
  EXPECT_THAT(sent_, ElementsAre("1 open n2", "1 bytes a", "1 bytes b"));
  uplink_.lost();
  EXPECT_THAT(seen_, ElementsAre("one closed"));
  uplink_.send(one, "c");
  EXPECT_EQ(sent_.size(), 3U);
}

TEST_F(StreamUplinkTest, AsksWhatAClientWaitsFor) {
  std::vector<std::string> answers;
  const auto note = [&answers](const std::optional<StreamWait>& wait) {
    answers.push_back(wait ? wait->what + " for " + std::to_string(wait->age.count()) + " ms" : "nothing");
  };
  const auto one = uplink_.open("n2", events("one"));
  for (int i = 0; i < 3; ++i) uplink_.ask_wait(one, note);
  EXPECT_EQ(sent_.back(), "1 ask");
  const HorovodValue wait = encode_stream_wait(StreamWait{.what = "the key", .age = std::chrono::milliseconds(7)});
  ASSERT_TRUE(uplink_.on_frame({.kind = HorovodFrameKind::kStreamWait, .id = one, .value = *wait}).ok());
  ASSERT_TRUE(uplink_.on_frame({.kind = HorovodFrameKind::kStreamWait, .id = one}).ok());
  EXPECT_THAT(answers, ElementsAre("the key for 7 ms", "nothing"));
  uplink_.lost();
  uplink_.ask_wait(one, note);
  EXPECT_THAT(answers, ElementsAre("the key for 7 ms", "nothing", "nothing", "nothing"));
}

TEST_F(StreamUplinkTest, RefusesWhatNoHostAboveSends) {
  const std::string long_text(600, 'x');
  for (const std::string& value : {std::string("1234567"), std::string(8, '\xff'), std::string(8, '\0') + long_text}) {
    EXPECT_FALSE(uplink_.on_frame({.kind = HorovodFrameKind::kStreamWait, .id = 1, .value = value}).ok());
  }
  EXPECT_EQ(parse_stream_wait(*encode_stream_wait(StreamWait{.what = long_text})).value()->what.size(), 512U);
  for (const char* value : {"", "abc", "\xff\xff\xff\xff"}) {
    EXPECT_FALSE(uplink_.on_frame({.kind = HorovodFrameKind::kStreamCredit, .id = 1, .value = value}).ok());
  }
  EXPECT_FALSE(uplink_.on_frame({.kind = HorovodFrameKind::kStreamOpen, .id = 1}).ok());
  EXPECT_EQ(parse_stream_credit(*stream_credit(kStreamWindow)), kStreamWindow);
}

}  // namespace
}  // namespace muster::rendezvous::stream_uplink_test
