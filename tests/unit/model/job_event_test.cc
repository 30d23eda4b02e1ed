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

TEST(HostsLeftOut, IsOneShortLine) {
  EXPECT_EQ(describe(HostsLeftOut{.hosts = {"n2"}, .reasons = {"connection refused"}}),
            "1 host is not up, so the job starts without it: n2: connection refused");
  HostsLeftOut many;
  for (int i = 0; i < 5'000; ++i) {
    many.hosts.push_back(fmt::format("n{:05}", 2 * i));
    many.reasons.emplace_back(i % 3 == 0 ? "no log-in within 30 s" : "connection refused");
  }
  const std::string line = describe(many);
  EXPECT_LE(line.size(), 400u) << line;
  EXPECT_EQ(line.substr(0, 60), "5,000 hosts are not up, so the job starts without them: n[00");
}

TEST(GenerationBegan, NamesManyHostsAsRanges) {
  GenerationBegan began{.number = 1, .from = 80'000, .to = 79'000};
  for (int i = 1; i <= 125; ++i) began.lost.push_back(fmt::format("n{:04}", i));
  EXPECT_EQ(describe(began), "generation 1: 80000 → 79000 ranks, n[0001-0125] lost, 0.00 s");
}

TEST(LateHost, IsOneLine) {
  EXPECT_EQ(
      describe(LateHost{.host = "n5", .late = 999, .operations = 1204, .median = std::chrono::microseconds(48'300)}),
      "n5 came last in 83 % of 1204 steps, by 48 ms");
  EXPECT_EQ(describe_lateness(std::chrono::microseconds(1400)), "1.4 ms");
}

}  // namespace
}  // namespace muster::model::job_event_test
