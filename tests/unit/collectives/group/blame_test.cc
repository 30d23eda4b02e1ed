// Whom ranks name at the deadline of an operation.
#include <gtest/gtest.h>

#include "tests/unit/collectives/support/ranks_in_threads.h"

namespace muster::collectives::blame_test {
namespace {

using base::Code;
using std::chrono::milliseconds;

// Rank 0 waits for rank 2 here, and for rank 1 in other operations.
TEST(BlameTest, OfAHostThatDoesNotAnswerTheFirstRankIsNamed) {
  RanksInThreads ranks({1, 2}, {.deadline = milliseconds(1000)});
  ranks.run_on({0}, [](const std::shared_ptr<Communicator>& comm) {
    float value = 0;
    const base::Status failed = comm->broadcast(&value, 1, DType::kF32, 2);
    EXPECT_EQ(failed.code(), Code::kDeadlineExceeded) << failed;
    EXPECT_EQ(comm->failure().rank, 1) << failed;
    EXPECT_NE(failed.message().find("none of the ranks 1,2 on"), std::string::npos) << failed;
  });
}

TEST(BlameTest, OfAHostOfWhichOneRankAnswersTheOtherOneIsNamed) {
  RanksInThreads ranks({1, 2}, {.deadline = milliseconds(3000)});
  ranks.run_on({0, 1}, [](const std::shared_ptr<Communicator>& comm) {
    const base::Status failed = comm->barrier();
    EXPECT_EQ(failed.code(), Code::kDeadlineExceeded) << failed;
    EXPECT_EQ(comm->failure().rank, 2) << failed;
  });
}

// Ranks 0 and 1 wait for rank 4. The launcher does not hear from the host of ranks 2 and 3.
TEST(BlameTest, NamesTheFirstRankOfAHostThatTheLauncherDoesNotHear) {
  RanksInThreads ranks({2, 2, 1}, {.deadline = milliseconds(1000)});
  ranks.run_on({0, 1}, [](const std::shared_ptr<Communicator>& comm) {
    for (const int silent : {2, 3}) comm->world().set_silent(silent, true);
    float value = 0;
    const base::Status failed = comm->broadcast(&value, 1, DType::kF32, 4);
    EXPECT_EQ(failed.code(), Code::kDeadlineExceeded) << failed;
    EXPECT_EQ(comm->failure().rank, 2) << failed;
    EXPECT_NE(failed.message().find("does not answer the launcher"), std::string::npos) << failed;
  });
}

TEST(BlameTest, DoesNotNameASilentHostWhoseRanksSayWhomTheyWaitFor) {
  RanksInThreads ranks({1, 1, 1}, {.deadline = milliseconds(3000)});
  ranks.run_on({0, 1}, [](const std::shared_ptr<Communicator>& comm) {
    if (comm->rank() == 0) comm->world().set_silent(1, true);
    const base::Status failed = comm->barrier();
    EXPECT_EQ(failed.code(), Code::kDeadlineExceeded) << failed;
    EXPECT_EQ(comm->failure().rank, 2) << failed;
  });
}

TEST(BlameTest, DoesNotNameAHostThatAnswersAgain) {
  RanksInThreads ranks({1, 1, 1}, {.deadline = milliseconds(1000)});
  ranks.run_on({0}, [](const std::shared_ptr<Communicator>& comm) {
    comm->world().set_silent(1, true);
    comm->world().set_silent(1, false);
    float value = 0;
    const base::Status failed = comm->broadcast(&value, 1, DType::kF32, 2);
    EXPECT_EQ(comm->failure().rank, 2) << failed;
  });
}

TEST(BlameTest, ASilentHostAloneFailsNothing) {
  RanksInThreads ranks({1, 2}, {.deadline = milliseconds(30'000)});
  ranks.run([&](const std::shared_ptr<Communicator>& comm) {
    for (int rank = 0; rank < comm->size(); ++rank) comm->world().set_silent(rank, true);
    for (int step = 0; step < 10; ++step) {
      const base::Status done = comm->barrier();
      EXPECT_TRUE(done.ok()) << done;
    }
  });
}

}  // namespace
}  // namespace muster::collectives::blame_test
