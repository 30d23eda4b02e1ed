#include "model/job_event.h"

#include <gtest/gtest.h>

namespace muster::model::job_event_test {
namespace {

TEST(GenerationBegan, IsOneLine) {
  GenerationBegan began{.number = 3, .from = 8, .to = 6, .elapsed = std::chrono::milliseconds(1234)};
  EXPECT_EQ(describe(began), "generation 3: 8 → 6 ranks, 1.23 s");
  began.lost = {"n2"};
  began.reason = "lease over";
  EXPECT_EQ(describe(began), "generation 3: 8 → 6 ranks, n2 lost (lease over), 1.23 s");
  began.added = {"n3", "n4"};
  EXPECT_EQ(describe(began), "generation 3: 8 → 6 ranks, n3, n4 joined, n2 lost (lease over), 1.23 s");
}

TEST(FirstCollectiveEnded, IsOneLine) {
  EXPECT_EQ(describe(FirstCollectiveEnded{.generation = 3, .elapsed = std::chrono::milliseconds(128)}),
            "generation 3: first collective after 0.13 s");
}

TEST(WrongWorld, IsOneLine) {
  EXPECT_EQ(
      describe(WrongWorld{.size = 5,
                          .formed = {{.size = 1, .ranks = {4}, .source = "a"}, {.size = 2, .ranks = {0, 1, 2, 3}}},
                          .reason = "do this"}),
      "5 ranks were started, but they have formed 1 world of 1 rank and 2 worlds of 2 ranks: do this");
}

TEST(LateHost, IsOneLine) {
  EXPECT_EQ(
      describe(LateHost{.host = "n5", .late = 999, .operations = 1204, .median = std::chrono::microseconds(48'300)}),
      "n5 came last in 83 % of 1204 steps, by 48 ms");
  EXPECT_EQ(describe_lateness(std::chrono::microseconds(1400)), "1.4 ms");
}

}  // namespace
}  // namespace muster::model::job_event_test
