#include "agent/job/spawn_watch.h"

#include <gtest/gtest.h>

namespace muster::agent::spawn_watch_test {
namespace {

using namespace std::chrono_literals;

SpawnRequest request(int rank) {
  SpawnRequest made;
  made.rank = rank;
  made.argv = {"./train"};
  made.workdir = "/data";
  return made;
}

class SpawnWatchTest : public ::testing::Test {
 protected:
  void run_for(std::chrono::milliseconds time) {
    const base::Timer end = loop_.after(time, [this] { loop_.stop(); });
    loop_.run();
  }

  base::Loop loop_;
  std::vector<std::string> warnings_;
  SpawnWatch watch_{loop_,
                    [this](const std::string& text) {
                      warnings_.push_back(text);
                      loop_.stop();
                    },
                    1s};
};

TEST_F(SpawnWatchTest, SaysWhenTheLastRankWasTried) {
  watch_.expect({request(0), request(1)});
  EXPECT_FALSE(watch_.tried(1));
  EXPECT_TRUE(watch_.tried(0));
  EXPECT_TRUE(watch_.tried(0)) << "also for a rank that was tried before";
}

TEST_F(SpawnWatchTest, WarnsOfTheFirstRankThatHangs) {
  watch_.expect({request(3), request(4)});
  run_for(10s);
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_EQ(warnings_[0],
            "rank 3 has not started for 1 s ('./train' in /data); check that the file system of its program and folder "
            "answers");
  EXPECT_FALSE(watch_.tried(3));
  run_for(10s);
  ASSERT_EQ(warnings_.size(), 2U) << "the next rank hangs, too";
  EXPECT_TRUE(warnings_[1].starts_with("rank 4 "));
}

TEST_F(SpawnWatchTest, StaysSilentAfterAllWereTried) {
  watch_.expect({request(3)});
  watch_.tried(3);
  run_for(1500ms);
  EXPECT_TRUE(warnings_.empty());
}

}  // namespace
}  // namespace muster::agent::spawn_watch_test
