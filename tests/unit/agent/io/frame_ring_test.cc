#include "agent/io/frame_ring.h"

#include <cstring>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace muster::agent::frame_ring_test {
namespace {

using proto::kOutputHeaderSize;

bool add(FrameRing* ring, std::string_view payload) {
  char* const room = ring->reserve(payload.size());
  if (room == nullptr) return false;
  std::memcpy(room, payload.data(), payload.size());
  ring->commit({.kind = proto::OutputKind::kData, .length = static_cast<std::uint32_t>(payload.size())});
  return true;
}

std::string send_all(FrameRing* ring) {
  std::string sent;
  while (!ring->unsent().empty()) {
    sent.append(ring->unsent());
    ring->mark_sent(ring->unsent().size());
  }
  return sent;
}

std::uint64_t first_sequence(std::string_view bytes) {
  const auto parse = proto::parse_output_frame(bytes);
  return parse.ok() && parse->state == proto::OutputParse::State::kFrame ? parse->frame.header.sequence : 0;
}

TEST(FrameRing, NumbersFramesAndForgetsAcknowledgedOnes) {
  FrameRing ring(4096);
  EXPECT_TRUE(ring.is_empty());
  ASSERT_TRUE(add(&ring, "one\n"));
  ASSERT_TRUE(add(&ring, "two\n"));
  EXPECT_EQ(first_sequence(ring.unsent()), 1U);
  EXPECT_EQ(send_all(&ring).size(), 2 * (kOutputHeaderSize + 4));
  EXPECT_TRUE(ring.acknowledge(1).ok());
  EXPECT_EQ(ring.frames(), 1U);
  EXPECT_TRUE(ring.acknowledge(1).ok());  // again: nothing new
  EXPECT_TRUE(ring.acknowledge(2).ok());
  EXPECT_TRUE(ring.is_empty());
}

TEST(FrameRing, AReservationMayBeUsedInPart) {
  FrameRing ring(4096);
  char* const room = ring.reserve(1000);
  std::memcpy(room, "ab\n", 3);
  ring.commit({.kind = proto::OutputKind::kData, .length = 3});
  EXPECT_EQ(ring.unsent().size(), kOutputHeaderSize + 3);
  ASSERT_NE(ring.reserve(1000), nullptr);  // not used at all: leaves no trace
  EXPECT_EQ(ring.unsent().size(), kOutputHeaderSize + 3);
}

TEST(FrameRing, RefusesNumbersThatCannotBe) {
  FrameRing ring(4096);
  ASSERT_TRUE(add(&ring, "one\n"));
  EXPECT_FALSE(ring.acknowledge(1).ok());  // not sent yet
  ring.mark_sent(10);
  EXPECT_FALSE(ring.acknowledge(1).ok());  // only half of it
  send_all(&ring);
  EXPECT_FALSE(ring.acknowledge(2).ok());
  EXPECT_TRUE(ring.acknowledge(1).ok());
  EXPECT_FALSE(ring.acknowledge(0).ok());
  EXPECT_FALSE(ring.resume_after(2).ok());
  EXPECT_TRUE(ring.resume_after(1).ok());
}

TEST(FrameRing, AfterACutWhatIsLeftIsSentAgainFromAFrameStart) {
  FrameRing ring(4096);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(add(&ring, "line\n"));
  ring.mark_sent(kOutputHeaderSize + 5 + 7);  // the second one in part
  ASSERT_TRUE(ring.resume_after(1).ok());
  EXPECT_EQ(first_sequence(ring.unsent()), 2U);
  EXPECT_EQ(send_all(&ring).size(), 2 * (kOutputHeaderSize + 5));
  ASSERT_TRUE(ring.resume_after(3).ok());
  EXPECT_TRUE(ring.is_empty());
  EXPECT_TRUE(ring.unsent().empty());
}

// What a ring sends, frame by frame.
std::vector<proto::OutputHeader> headers(std::string_view bytes, std::uint64_t* gap_bytes) {
  std::vector<proto::OutputHeader> found;
  while (!bytes.empty()) {
    const auto parse = proto::parse_output_frame(bytes);
    EXPECT_TRUE(parse.ok() && parse->state == proto::OutputParse::State::kFrame);
    if (!parse.ok() || parse->state != proto::OutputParse::State::kFrame) break;
    found.push_back(parse->frame.header);
    if (parse->frame.header.kind == proto::OutputKind::kGap) *gap_bytes = proto::decode_gap_bytes(parse->frame.payload);
    bytes.remove_prefix(parse->size);
  }
  return found;
}

TEST(FrameRing, SaysWhatIsGoneToALauncherThatHasLostIt) {
  FrameRing ring(4096);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(add(&ring, "line\n"));
  send_all(&ring);
  ASSERT_TRUE(ring.acknowledge(3).ok());
  for (int time = 0; time < 2; ++time) {  // the connection is cut before it has taken that: the same once more
    ASSERT_TRUE(ring.resume_after(1).ok());
    std::uint64_t gap_bytes = 0;
    const auto sent = headers(send_all(&ring), &gap_bytes);
    ASSERT_EQ(sent.size(), 3U);
    EXPECT_EQ(sent[0].kind, proto::OutputKind::kGap);
    EXPECT_EQ(sent[0].sequence, 3U);
    EXPECT_EQ(gap_bytes, 15U);
    EXPECT_EQ(sent[1].sequence, 4U);
    EXPECT_EQ(sent[2].sequence, 5U);
  }
  EXPECT_TRUE(ring.acknowledge(3).ok());
  EXPECT_FALSE(ring.acknowledge(2).ok());
  EXPECT_EQ(ring.frames(), 2U);
  EXPECT_TRUE(ring.acknowledge(5).ok());
  EXPECT_TRUE(ring.is_empty());
  ASSERT_TRUE(ring.resume_after(5).ok());
  EXPECT_TRUE(ring.unsent().empty());
}

TEST(FrameRing, AGapIsSentInPiecesAndAheadOfNewFrames) {
  FrameRing ring(4096);
  ASSERT_TRUE(add(&ring, "one\n"));
  send_all(&ring);
  ASSERT_TRUE(ring.acknowledge(1).ok());
  ASSERT_TRUE(ring.resume_after(0).ok());
  std::string sent(ring.unsent().substr(0, 5));
  ring.mark_sent(5);
  ASSERT_TRUE(add(&ring, "two\n"));
  sent += send_all(&ring);
  std::uint64_t gap_bytes = 0;
  const auto found = headers(sent, &gap_bytes);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].kind, proto::OutputKind::kGap);
  EXPECT_EQ(found[1].sequence, 2U);
  EXPECT_EQ(gap_bytes, 4U);
}

TEST(FrameRing, ALostFinishIsSentAgain) {
  FrameRing ring(4096);
  ASSERT_TRUE(add(&ring, "one\n"));
  ASSERT_NE(ring.reserve(0), nullptr);
  ring.commit({.kind = proto::OutputKind::kFinish});
  send_all(&ring);
  ASSERT_TRUE(ring.acknowledge(2).ok());
  std::uint64_t gap_bytes = 0;
  ASSERT_TRUE(ring.resume_after(0).ok());
  const auto all = headers(send_all(&ring), &gap_bytes);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].kind, proto::OutputKind::kGap);
  EXPECT_EQ(all[0].sequence, 1U);
  EXPECT_EQ(gap_bytes, 4U);
  EXPECT_EQ(all[1].kind, proto::OutputKind::kFinish);
  EXPECT_EQ(all[1].sequence, 2U);
  EXPECT_TRUE(ring.acknowledge(1).ok());  // the gap alone
  EXPECT_TRUE(ring.acknowledge(2).ok());
  ASSERT_TRUE(ring.resume_after(1).ok());
  const auto finish = headers(send_all(&ring), &gap_bytes);
  ASSERT_EQ(finish.size(), 1U);
  EXPECT_EQ(finish[0].kind, proto::OutputKind::kFinish);
}

TEST(FrameRing, IsFullUntilSomethingIsAcknowledged) {
  FrameRing ring(1000);
  int added = 0;
  while (add(&ring, std::string(76, 'x'))) ++added;
  EXPECT_EQ(added, 10);
  send_all(&ring);
  EXPECT_FALSE(add(&ring, std::string(76, 'x')));
  ASSERT_TRUE(ring.acknowledge(1).ok());
  EXPECT_TRUE(add(&ring, std::string(76, 'x')));  // in the place of the first
  EXPECT_FALSE(add(&ring, std::string(76, 'x')));
  ASSERT_TRUE(ring.resume_after(10).ok());  // the eleventh is left, at the beginning
  EXPECT_EQ(first_sequence(ring.unsent()), 11U);
  EXPECT_EQ(ring.unsent().size(), 100U);
  EXPECT_TRUE(add(&ring, std::string(876, 'y')));
  EXPECT_EQ(send_all(&ring).size(), 1000U);
}

// Against a plain model: random frames, partial writes, acknowledgements and cuts.
TEST(FrameRing, RandomWalkAgreesWithASimpleModel) {
  std::mt19937 random(4711);
  for (int round = 0; round < 50; ++round) {
    FrameRing ring(2000 + random() % 3000);
    std::deque<std::string> model;  // encoded, not acknowledged
    std::uint64_t first = 1;
    std::size_t sent = 0;  // bytes of the model
    for (int step = 0; step < 2000; ++step) {
      const auto action = random() % 10;
      if (action < 5) {
        const std::string payload(1 + random() % 600, static_cast<char>('a' + step % 26));
        if (add(&ring, payload)) {
          model.push_back(proto::encode_output_frame(
              {.kind = proto::OutputKind::kData, .sequence = first + model.size()}, payload));
        }
      } else if (action < 8) {
        std::string all;
        for (const std::string& frame : model) all += frame;
        const std::string_view run = ring.unsent();
        ASSERT_EQ(run.empty(), sent == all.size());
        ASSERT_EQ(run, std::string_view(all).substr(sent, run.size()));
        if (run.empty()) continue;
        const std::size_t size = 1 + random() % run.size();
        ring.mark_sent(size);
        sent += size;
      } else if (!model.empty()) {
        const std::size_t count = random() % (model.size() + 1);
        std::size_t bytes = 0;
        for (std::size_t i = 0; i < count; ++i) bytes += model[i].size();
        const bool is_cut = action == 9 && random() % 4 == 0;
        if (is_cut) {
          ASSERT_TRUE(ring.resume_after(first + count - 1).ok());
          sent = 0;
        } else {
          ASSERT_EQ(ring.acknowledge(first + count - 1).ok(), bytes <= sent);
          if (bytes > sent) continue;
          sent -= bytes;
        }
        model.erase(model.begin(), model.begin() + static_cast<long>(count));
        first += count;
      }
      ASSERT_EQ(ring.frames(), model.size());
    }
  }
}

}  // namespace
}  // namespace muster::agent::frame_ring_test
