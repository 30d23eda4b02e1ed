// Real child processes whose ends are noticed.
#include "collectives/join/process_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

namespace muster::collectives::process_watch_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

pid_t start_child() {
  const pid_t child = fork();
  if (child == 0) {
    for (;;) pause();
  }
  return child;
}

void end(pid_t child) {
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

class ProcessWatchTest : public testing::Test {
 protected:
  // Polls once, at most for `limit` ms. Returns false if the watch is over.
  bool turn(int limit) {
    std::vector<pollfd> fds;
    watch_.add_polls(fds);
    if (poll(fds.data(), fds.size(), limit) <= 0) return true;
    for (const pollfd& slot : fds) {
      if (slot.revents != 0 && !watch_.on_ready(slot.fd)) return false;
    }
    return true;
  }

  std::vector<int> ended_;
  ProcessWatch watch_{[this](int rank) { ended_.push_back(rank); }};
};

TEST_F(ProcessWatchTest, ReportsAProcessOnceItHasEnded) {
  const pid_t one = start_child();
  const pid_t two = start_child();
  watch_.add(1, one);
  watch_.add(2, two);
  EXPECT_TRUE(turn(0));
  EXPECT_THAT(ended_, IsEmpty());
  end(two);
  while (ended_.empty()) EXPECT_TRUE(turn(20'000));
  EXPECT_THAT(ended_, ElementsAre(2));
  end(one);
  while (turn(20'000)) {
  }
  EXPECT_THAT(ended_, ElementsAre(2, 1));
}

TEST_F(ProcessWatchTest, WaitsForAGoodbyeFirst) {
  const pid_t child = start_child();
  watch_.add(1, child);
  end(child);
  EXPECT_TRUE(turn(20'000));  // now the timer runs
  EXPECT_THAT(ended_, IsEmpty());
  EXPECT_FALSE(turn(20'000));
  EXPECT_THAT(ended_, ElementsAre(1));
}

TEST_F(ProcessWatchTest, ReportsAProcessThatHadEndedBefore) {
  const pid_t child = start_child();
  end(child);
  watch_.add(5, child);
  watch_.add(6, child);
  while (turn(20'000)) {
  }
  EXPECT_THAT(ended_, UnorderedElementsAre(5, 6));
}

TEST_F(ProcessWatchTest, IgnoresOtherDescriptors) {
  EXPECT_TRUE(watch_.on_ready(0));
  EXPECT_THAT(ended_, IsEmpty());
}

}  // namespace
}  // namespace muster::collectives::process_watch_test
