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

}  // namespace
}  // namespace muster::model::job_event_test
