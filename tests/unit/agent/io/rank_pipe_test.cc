#include "agent/io/rank_pipe.h"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <vector>

#include <gtest/gtest.h>

namespace muster::agent::rank_pipe_test {
namespace {

using proto::OutputStream;
using Step = RankPipe::Step;

// A pipe, a ring, and what came out of the ring.
class RankPipeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto pair = base::make_pipe();
    ASSERT_TRUE(pair.ok());
    write_end_ = std::move(pair->second);
    (void)fcntl(write_end_.get(), F_SETPIPE_SZ, 1 << 20);  // fewer turns where it is allowed
    ASSERT_TRUE(base::set_nonblocking(pair->first.get(), true).ok());
    pipe_ = std::make_unique<RankPipe>(5, OutputStream::kStderr, std::move(pair->first));
  }
  void put(std::string_view text) {
    ASSERT_TRUE(base::write_all_blocking(write_end_.get(), text.data(), text.size()).ok());
  }
  Step step() { return pipe_->read_step(&ring_, &budget_, now_); }

  // The frames since the last call: payload, then flags as "P" and "C".
  std::vector<std::string> frames() {
    std::vector<std::string> found;
    while (!ring_.unsent().empty()) {
      const auto parse = proto::parse_output_frame(ring_.unsent());
      if (!parse.ok() || parse->state != proto::OutputParse::State::kFrame) return {"malformed"};
      const proto::OutputHeader& header = parse->frame.header;
      EXPECT_EQ(header.rank, 5U);
      EXPECT_EQ(header.stream, OutputStream::kStderr);
      found.push_back(std::string(parse->frame.payload) + ((header.flags & proto::kPartial) != 0 ? "|P" : "") +
                      ((header.flags & proto::kContinuation) != 0 ? "|C" : ""));
      last_ = header.sequence;
      ring_.mark_sent(parse->size);
    }
    EXPECT_TRUE(ring_.acknowledge(last_).ok());
    return found;
  }

  using Strings = std::vector<std::string>;
  base::UniqueFd write_end_;
  std::unique_ptr<RankPipe> pipe_;
  FrameRing ring_{std::size_t{3} << 20};
  CarryBudget budget_;
  base::MonotonicTime now_{std::chrono::hours(1)};
  std::uint64_t last_ = 0;
};

TEST_F(RankPipeTest, OfATerminalEachPieceGoesAsItComes) {
  auto pair = base::make_pipe();
  ASSERT_TRUE(pair.ok() && base::set_nonblocking(pair->first.get(), true).ok());
  write_end_ = std::move(pair->second);
  pipe_ = std::make_unique<RankPipe>(5, OutputStream::kStderr, std::move(pair->first), RankPipe::Cut::kAsTheyCome);
  put("a\n>>> ");
  EXPECT_EQ(step(), Step::kMoved);
  EXPECT_EQ(frames(), Strings{"a\n>>> |P"});
  EXPECT_FALSE(pipe_->has_carry());
  put("x\n");
  EXPECT_EQ(step(), Step::kMoved);
  EXPECT_EQ(frames(), Strings{"x\n|C"});
}

TEST_F(RankPipeTest, WholeLinesGoTheRestStays) {
  put("one\ntwo\nthr");
  EXPECT_EQ(step(), Step::kMoved);
  EXPECT_EQ(frames(), Strings{"one\ntwo\n"});
  EXPECT_TRUE(pipe_->has_carry());
  EXPECT_EQ(budget_.used, 3U);
  EXPECT_EQ(step(), Step::kEmpty);
  put("ee");
  EXPECT_EQ(step(), Step::kMoved);
  EXPECT_EQ(frames(), Strings{});
  put("\nfo");
  EXPECT_EQ(step(), Step::kMoved);
  EXPECT_EQ(frames(), Strings{"three\n"});
  EXPECT_EQ(pipe_->bytes(), 16U);
  EXPECT_EQ(pipe_->tail(), "one\ntwo\nthree\nfo");
}

TEST_F(RankPipeTest, BarsGoAtOnce) {
  put("10%\r20%\r30");
  EXPECT_EQ(step(), Step::kMoved);
  EXPECT_EQ(frames(), Strings{"10%\r20%\r"});
}

TEST_F(RankPipeTest, FlushedPartsAreMarked) {
  put("name: ");
  EXPECT_EQ(step(), Step::kMoved);
  EXPECT_TRUE(pipe_->flush_carry(&ring_, &budget_));
  EXPECT_EQ(frames(), Strings{"name: |P"});
  EXPECT_EQ(budget_.used, 0U);
  put("bob\n");
  EXPECT_EQ(step(), Step::kMoved);
  EXPECT_EQ(frames(), Strings{"bob\n|C"});
  put("next\n");
  EXPECT_EQ(step(), Step::kMoved);
  EXPECT_EQ(frames(), Strings{"next\n"});
}

TEST_F(RankPipeTest, ALineBeyondAMebibyteGoesInParts) {
  const std::string part(64 * 1024, 'x');
  std::size_t partial = 0;
  std::size_t total = 0;
  for (int i = 0; i < 40; ++i) {
    put(part);
    while (step() == Step::kMoved) {
    }
    for (const std::string& frame : frames()) {
      partial += frame.find("|P") != std::string::npos ? 1U : 0U;
      total += frame.find('|') == std::string::npos ? frame.size() : frame.find('|');
    }
    EXPECT_LE(budget_.used, RankPipe::kMaxLine);
  }
  EXPECT_EQ(partial, 2U);
  EXPECT_EQ(total, 2 * RankPipe::kMaxLine);
}

TEST_F(RankPipeTest, BeyondTheBudgetOnlyLongLinesAreCut) {
  budget_.used = budget_.limit;  // by other pipes
  put(std::string(50'000, 'x'));
  EXPECT_EQ(step(), Step::kMoved);
  EXPECT_EQ(frames(), Strings{});
  put(std::string(50'000, 'x'));
  EXPECT_EQ(step(), Step::kMoved);
  EXPECT_EQ(frames(), Strings{std::string(100'000, 'x') + "|P"});
  EXPECT_EQ(budget_.used, budget_.limit);
}

TEST_F(RankPipeTest, TheEndLeavesTheUnfinishedLine) {
  put("no newline");
  write_end_.reset();
  EXPECT_EQ(step(), Step::kMoved);
  EXPECT_EQ(step(), Step::kEnded);
  EXPECT_FALSE(pipe_->is_open());
  EXPECT_TRUE(pipe_->flush_carry(&ring_, &budget_));
  EXPECT_EQ(frames(), Strings{"no newline|P"});
  EXPECT_EQ(step(), Step::kEnded);
}

TEST_F(RankPipeTest, AfterTheExitOnlyWhatIsThereIsRead) {
  put("there\n");
  pipe_->stop_after_pending();
  put("later\n");
  EXPECT_EQ(step(), Step::kMoved);
  EXPECT_EQ(step(), Step::kEnded);
  EXPECT_EQ(frames(), Strings{"there\n"});
}

TEST_F(RankPipeTest, AFullRingLeavesThePipeAlone) {
  while (ring_.reserve(RankPipe::kReadSize) != nullptr) {
    ring_.commit({.kind = proto::OutputKind::kData, .length = RankPipe::kReadSize});
  }
  while (ring_.reserve(1) != nullptr) ring_.commit({.kind = proto::OutputKind::kData, .length = 1});
  put("waits\n");
  EXPECT_EQ(step(), Step::kRingFull);
  EXPECT_TRUE(pipe_->has_pending());
  EXPECT_EQ(pipe_->tail(), "");
  // A dead rank's last words are wanted all the same …
  pipe_->read_tail(&budget_);
  EXPECT_EQ(pipe_->tail(), "waits\n");
  EXPECT_FALSE(pipe_->has_pending());
  EXPECT_EQ(step(), Step::kRingFull);
  // … and go out in order, once, when there is room.
  ring_.mark_sent(ring_.unsent().size());
  last_ = ring_.frames();
  ASSERT_TRUE(ring_.acknowledge(last_).ok());
  put("more\n");
  EXPECT_EQ(step(), Step::kMoved);
  EXPECT_EQ(frames(), (Strings{"waits\n", "more\n"}));
  EXPECT_EQ(budget_.used, 0U);
}

TEST_F(RankPipeTest, WithoutADescriptorThereIsNothing) {
  RankPipe none(5, OutputStream::kStdout, base::UniqueFd());
  EXPECT_FALSE(none.is_open());
  EXPECT_FALSE(none.has_pending());
  EXPECT_EQ(none.read_step(&ring_, &budget_, now_), Step::kEnded);
}

}  // namespace
}  // namespace muster::agent::rank_pipe_test
