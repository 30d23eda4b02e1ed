#include "agent/io/rank_outputs.h"

#include <fcntl.h>

#include <algorithm>
#include <utility>

#include <gtest/gtest.h>

#include "tests/unit/support/temp_dir.h"

namespace muster::agent::rank_outputs_test {
namespace {

using base::MonotonicTime;
using proto::OutputKind;

// Two pipes whose write ends the test holds, and what came out of the ring.
class RankOutputsTest : public ::testing::Test {
 protected:
  RankOutputsTest() {
    config_.drain_after_exit = base::Duration::zero();
    config_.partial_line_after = std::chrono::hours(1);
    events_.on_stderr_tail = [this](int rank, const std::string& tail) {
      said_ += fmt::format("tail {} {}", rank, tail);
    };
    events_.on_ended = [this](const RankOutputEnd& end) {
      said_ += fmt::format("ended {} {} {}", end.rank, end.stdout_bytes, end.stderr_bytes);
    };
  }
  void add(int rank) {
    auto out = base::make_pipe();
    auto err = base::make_pipe();
    ASSERT_TRUE(out.ok() && err.ok());
    out_ = std::move(out->second);
    err_ = std::move(err->second);
    ranks_.add(rank, std::move(out->first), std::move(err->first), RankPipe::Cut::kLines);
  }
  static void put(const base::UniqueFd& fd, std::string_view text) {
    EXPECT_TRUE(base::write_all_blocking(fd.get(), text.data(), text.size()).ok());
  }
  void read() {
    ranks_.read_ready([] {});
  }

  // "<kind> <rank> <payload of data>" of each frame since the last call; acknowledged.
  std::string frames() {
    std::string found;
    std::uint64_t last = 0;
    while (!ring_.unsent().empty()) {
      const auto parse = proto::parse_output_frame(ring_.unsent());
      if (!parse.ok() || parse->state != proto::OutputParse::State::kFrame) return "malformed";
      const proto::OutputHeader& header = parse->frame.header;
      const bool is_data = header.kind == OutputKind::kData;
      found += fmt::format("{} {} {}", is_data ? "data" : "end", header.rank, is_data ? parse->frame.payload : "\n");
      last = header.sequence;
      ring_.mark_sent(parse->size);
    }
    if (last != 0) {
      EXPECT_TRUE(ring_.acknowledge(last).ok());
    }
    return found;
  }
  std::string said() { return std::exchange(said_, {}); }

  OutputSenderConfig config_;
  OutputSenderEvents events_;
  FrameRing ring_{std::size_t{4} << 20};
  RankOutputs ranks_{&config_, &events_, &ring_};
  base::UniqueFd out_;
  base::UniqueFd err_;
  std::string said_;
};

TEST_F(RankOutputsTest, WholeLinesAtOnceAndTheRestAtTheEnd) {
  add(3);
  put(out_, "one\ntw");
  read();
  EXPECT_EQ(frames(), "data 3 one\n");
  EXPECT_LT(ranks_.settle(), MonotonicTime::max());  // the unfinished line waits
  EXPECT_EQ(frames(), "");
  put(out_, "o");
  put(err_, "oh\n");
  out_.reset();
  err_.reset();
  ranks_.exited(3);
  EXPECT_EQ(said(), "tail 3 oh\n");
  while (!ranks_.have_ended()) {
    read();
    ranks_.settle();
  }
  EXPECT_EQ(said(), "ended 3 7 3");
  EXPECT_EQ(frames(), "data 3 oh\ndata 3 twoend 3 \n");
  EXPECT_EQ(ranks_.settle(), MonotonicTime::max());
}

TEST_F(RankOutputsTest, KnowsTheLastLineOfBothStreams) {
  add(3);
  EXPECT_TRUE(ranks_.last_outputs().empty());
  const MonotonicTime before = base::monotonic_now();
  put(out_, "one\ntwo");
  read();
  ASSERT_EQ(ranks_.last_outputs().count(3), 1u);
  EXPECT_EQ(ranks_.last_outputs().at(3).line, "two") << "also if it has not ended";
  const MonotonicTime first = ranks_.last_outputs().at(3).at;
  EXPECT_GE(first, before);
  put(err_, "bad\n");
  read();
  EXPECT_EQ(ranks_.last_outputs().at(3).line, "bad");
  EXPECT_GE(ranks_.last_outputs().at(3).at, first);
  put(out_, std::string(100'000, 'x') + "\nthree\n");
  read();
  EXPECT_EQ(ranks_.last_outputs().at(3).line, "three");
  ranks_.exited(3);
  out_.reset();
  err_.reset();
  read();
  ranks_.settle();
  EXPECT_TRUE(ranks_.last_outputs().empty());
}

TEST_F(RankOutputsTest, PipesThatAChildHoldsAreGivenUp) {
  add(0);
  put(out_, "last words");
  ranks_.exited(0);  // and the write ends stay open
  while (!ranks_.have_ended()) ranks_.settle();
  EXPECT_EQ(said(), "tail 0 ended 0 10 0");
  EXPECT_EQ(frames(), "data 0 last wordsend 0 \n");
}

TEST_F(RankOutputsTest, SilentRanksAreFramedWhenOneHasWritten) {
  config_.only_if_any = true;
  add(0);
  out_.reset();
  err_.reset();
  ranks_.exited(0);
  while (!ranks_.have_ended()) {
    read();
    ranks_.settle();
  }
  EXPECT_TRUE(ranks_.is_silent());
  EXPECT_FALSE(ranks_.are_ends_framed());
  EXPECT_EQ(frames(), "");
  add(1);
  put(out_, "x\n");
  read();
  ranks_.settle();
  EXPECT_FALSE(ranks_.is_silent());
  EXPECT_TRUE(ranks_.are_ends_framed());
  EXPECT_EQ(frames(), "data 1 x\nend 0 \n");
}

TEST_F(RankOutputsTest, AFullRingIsToldAndNothingIsLost) {
  add(0);
  const std::string line = std::string(60 * 1024 - 1, 'x') + "\n";
  std::uint64_t put_bytes = 0;
  while (!ranks_.is_ring_full()) {
    put(out_, line);
    put_bytes += line.size();
    read();
  }
  const std::string before = frames();
  ranks_.ring_has_room();
  read();
  const std::string all = before + frames();
  EXPECT_EQ(
      static_cast<std::uint64_t>(std::count(all.begin(), all.end(), 'x') + std::count(all.begin(), all.end(), '\n')),
      put_bytes);
}

// epoll refuses a plain file. It refuses a pipe as well when the user's watches are used up.
TEST_F(RankOutputsTest, WhatEpollDoesNotTakeIsReadAllTheSame) {
  const testing_support::TempDir folder;
  const std::string path = folder.write("output", "one\ntwo\n");
  base::UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  auto err = base::make_pipe();
  ASSERT_TRUE(file.valid() && err.ok());
  ranks_.add(5, std::move(file), std::move(err->first), RankPipe::Cut::kLines);
  err->second.reset();
  ranks_.settle();
  EXPECT_EQ(frames(), "data 5 one\ntwo\n");
  ranks_.exited(5);
  while (!ranks_.have_ended()) {
    read();
    ranks_.settle();
  }
  EXPECT_EQ(said(), "tail 5 ended 5 8 0");
}

}  // namespace
}  // namespace muster::agent::rank_outputs_test
