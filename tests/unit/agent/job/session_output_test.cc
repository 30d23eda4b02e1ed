#include "agent/job/session_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <map>

#include <gtest/gtest.h>

#include "tests/unit/agent/job/fake_warden.h"

namespace muster::agent::session_output_test {
namespace {

using testing::run_until;
using testing::started;

class SessionOutputTest : public ::testing::Test {
 protected:
  void begin(bool only_if_any) { ASSERT_TRUE(output_.start(testing::unreachable_output(only_if_any)).ok()); }
  // Starts a rank; returns the write end of its stderr.
  base::UniqueFd start(int rank) {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    RankStarted event = started(rank, 10);
    event.stderr_fd.reset(ends[0]);
    output_.rank_started(event, false);
    return base::UniqueFd(ends[1]);
  }
  bool arrives() {
    return run_until(loop_, [this] { return output_.has_all(); });
  }

  base::Loop loop_;
  std::map<int, std::string> tails_;
  SessionOutput output_{loop_,
                        {.on_tail = [this](int rank, const std::string& tail) { tails_[rank] = tail; },
                         .on_change = [this] { ++changes_; }}};
  int changes_ = 0;
};

TEST_F(SessionOutputTest, NeedsNothingBeforeItStarts) {
  EXPECT_TRUE(output_.has_all());
  output_.rank_exited(3);
  output_.finish();
  EXPECT_TRUE(output_.has_all());
}

TEST_F(SessionOutputTest, WaitsForTheTailOfARankThatExited) {
  begin(false);
  base::UniqueFd stderr_end = start(3);
  EXPECT_TRUE(output_.has_all()) << "the rank runs";
  ASSERT_EQ(::write(stderr_end.get(), "bad\n", 4), 4);
  stderr_end.reset();
  output_.rank_exited(3);
  EXPECT_FALSE(output_.has_all());
  EXPECT_TRUE(arrives());
  EXPECT_EQ(tails_[3], "bad\n");
  EXPECT_GT(changes_, 0);
}

TEST_F(SessionOutputTest, WaitsUntilItIsKnownThatThereWasNone) {
  begin(true);
  EXPECT_FALSE(output_.has_all());
  start(0).reset();
  output_.rank_exited(0);
  output_.finish();
  EXPECT_TRUE(arrives());
  EXPECT_FALSE(output_.had_any());
}

TEST_F(SessionOutputTest, KnowsOfOutputAtOnce) {
  begin(true);
  const base::UniqueFd stderr_end = start(0);
  ASSERT_EQ(::write(stderr_end.get(), "x\n", 2), 2);
  EXPECT_TRUE(arrives());
  EXPECT_TRUE(output_.had_any());
}

}  // namespace
}  // namespace muster::agent::session_output_test
