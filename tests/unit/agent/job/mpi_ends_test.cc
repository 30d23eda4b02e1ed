#include "agent/job/mpi_ends.h"

#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace muster::agent::mpi_ends_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class MpiEndsTest : public ::testing::Test {
 protected:
  v1::RankExited judged(int rank, int wait_status) {
    v1::RankExited exited;
    exited.set_rank(rank);
    exited.set_wait_status(wait_status);
    ends_.judge(exited);
    return exited;
  }

  base::Loop loop_;
  std::vector<int> killed_;
  MpiEnds ends_{loop_, [this](int rank) {
                  killed_.push_back(rank);
                  loop_.stop();
                }};
};

constexpr int kExitOne = 1 << 8;

TEST_F(MpiEndsTest, ZeroAfterInitNeedsAFinalize) {
  ends_.connected(0);
  ends_.connected(1);
  ends_.finalized(1);
  EXPECT_TRUE(judged(0, 0).without_finalize());
  EXPECT_FALSE(judged(1, 0).without_finalize());
  EXPECT_FALSE(judged(2, 0).without_finalize()) << "no MPI program";
}

TEST_F(MpiEndsTest, AWrappersSecondProgramMustFinalizeToo) {
  ends_.connected(0);
  ends_.finalized(0);
  ends_.connected(0);
  EXPECT_TRUE(judged(0, 0).without_finalize());
}

TEST_F(MpiEndsTest, OtherFailuresSpeakForThemselves) {
  for (const int status : {kExitOne, SIGKILL}) {
    ends_.connected(0);
    const v1::RankExited exited = judged(0, status);
    EXPECT_FALSE(exited.without_finalize() || exited.has_abort_code()) << status;
  }
}

TEST_F(MpiEndsTest, AnAbortCodeIsKeptAsItWasGiven) {
  ends_.connected(0);
  ends_.aborted(0, 256);
  ends_.aborted(0, 13);
  const v1::RankExited exited = judged(0, 0);
  EXPECT_EQ(exited.abort_code(), 256) << "the first one";
  EXPECT_FALSE(exited.without_finalize());
  EXPECT_FALSE(judged(0, 0).has_abort_code()) << "it is reported once";
}

TEST_F(MpiEndsTest, ARefusedSpawnIsPartOfAnAbortOnly) {
  ends_.connected(0);
  ends_.spawn_refused(0);
  ends_.aborted(0, 50);
  EXPECT_TRUE(judged(0, 0).spawn_refused());
  ends_.connected(1);
  ends_.spawn_refused(1);
  EXPECT_FALSE(judged(1, kExitOne).spawn_refused()) << "it went on, and ended otherwise";
}

TEST_F(MpiEndsTest, WhoAbortsAndGoesOnIsKilled) {
  ends_.aborted(4, 13);
  const auto bound = loop_.after(std::chrono::seconds(20), [this] { loop_.stop(); });
  loop_.run();
  EXPECT_THAT(killed_, ElementsAre(4));
  EXPECT_EQ(judged(4, SIGKILL).abort_code(), 13);
}

TEST_F(MpiEndsTest, WhoHasEndedIsNot) {
  ends_.aborted(4, 13);
  (void)judged(4, kExitOne);
  ends_.aborted(5, 1);  // later, so that the end of its patience shows that the other rank's patience has ended
  const auto bound = loop_.after(std::chrono::seconds(20), [this] { loop_.stop(); });
  loop_.run();
  EXPECT_THAT(killed_, ElementsAre(5));
}

TEST_F(MpiEndsTest, AnAbortAfterTheStopIsAConsequence) {
  ends_.connected(0);
  ends_.stopping();
  ends_.aborted(0, 15);
  EXPECT_FALSE(judged(0, SIGTERM).has_abort_code());
  EXPECT_THAT(killed_, IsEmpty());
}

}  // namespace
}  // namespace muster::agent::mpi_ends_test
