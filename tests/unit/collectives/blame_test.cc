// Whom ranks name at the deadline of an operation.
#include <gtest/gtest.h>

#include <latch>

#include "tests/unit/collectives/support/ranks_in_threads.h"

namespace muster::collectives::blame_test {
namespace {

using base::Code;
using std::chrono::milliseconds;

// Rank 0 waits for rank 2 here, and for rank 1 in other operations.
TEST(BlameTest, OfAHostThatDoesNotAnswerTheFirstRankIsNamed) {
  RanksInThreads ranks({1, 2}, {.deadline = milliseconds(1000)});
  std::latch is_done(1);
  ranks.run([&](const std::shared_ptr<Communicator>& comm) {
    if (comm->rank() != 0) {
      is_done.wait();
      return;
    }
    float value = 0;
    const base::Status failed = comm->broadcast(&value, 1, DType::kF32, 2);
    EXPECT_EQ(failed.code(), Code::kDeadlineExceeded) << failed;
    EXPECT_EQ(comm->failure().rank, 1) << failed;
    EXPECT_NE(failed.message().find("none of the ranks 1,2 of"), std::string::npos) << failed;
    is_done.count_down();
  });
}

TEST(BlameTest, OfAHostOfWhichOneRankAnswersTheOtherOneIsNamed) {
  RanksInThreads ranks({1, 2}, {.deadline = milliseconds(3000)});
  std::latch are_done(2);
  ranks.run([&](const std::shared_ptr<Communicator>& comm) {
    if (comm->rank() == 2) {
      are_done.wait();
      return;
    }
    const base::Status failed = comm->barrier();
    EXPECT_EQ(failed.code(), Code::kDeadlineExceeded) << failed;
    EXPECT_EQ(comm->failure().rank, 2) << failed;
    are_done.count_down();
  });
}

}  // namespace
}  // namespace muster::collectives::blame_test
