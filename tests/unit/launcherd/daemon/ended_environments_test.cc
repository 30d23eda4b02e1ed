#include "launcherd/daemon/ended_environments.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace muster::launcherd::ended_environments_test {
namespace {

using namespace std::chrono_literals;

constexpr base::WallTime kNow{1'700'000'000s};
constexpr base::WallTime kLater = kNow + 24h;

// Returns "aaaaaaaa" for 0.
base::JobId id(std::size_t number) {
  std::string text(8, 'a');
  for (std::size_t i = text.size(); i-- > 0; number /= 26) text[i] = static_cast<char>('a' + number % 26);
  return *base::JobId::parse(text);
}

TEST(EndedEnvironments, KeepsTheLastJobs) {
  EndedEnvironments kept;
  for (std::size_t i = 0; i <= EndedEnvironments::kMostJobs; ++i) kept.add(id(i), fmt::format("{}", i), kNow, kLater);
  EXPECT_EQ(kept.size(), EndedEnvironments::kMostJobs);
  EXPECT_EQ(kept.find(id(0)), nullptr);
  ASSERT_NE(kept.find(id(1)), nullptr);
  EXPECT_EQ(*kept.find(id(1)), "1");
}

TEST(EndedEnvironments, KeepsAFixedNumberOfBytes) {
  EndedEnvironments kept;
  const std::string half(EndedEnvironments::kMostBytes / 2, 'x');
  kept.add(id(1), half, kNow, kLater);
  kept.add(id(2), half, kNow, kLater);
  EXPECT_NE(kept.find(id(1)), nullptr);
  kept.add(id(3), "y", kNow, kLater);
  EXPECT_EQ(kept.find(id(1)), nullptr);
  EXPECT_NE(kept.find(id(2)), nullptr);
  kept.add(id(4), half + half + "y", kNow, kLater);  // longer than all that may be kept
  EXPECT_EQ(kept.find(id(4)), nullptr);
  EXPECT_NE(kept.find(id(3)), nullptr);
}

TEST(EndedEnvironments, NothingOutlivesTheRecordOfItsJob) {
  EndedEnvironments kept;
  kept.add(id(1), "one", kNow, kNow);
  EXPECT_EQ(kept.find(id(1)), nullptr);
  kept.add(id(2), "two", kNow, kNow + 1h);
  kept.add(id(3), "three", kNow + 1h, kLater);
  EXPECT_EQ(kept.find(id(2)), nullptr);
  EXPECT_NE(kept.find(id(3)), nullptr);
  EXPECT_EQ(kept.size(), 1U);
}

TEST(EndedEnvironments, TheNewestOfAJobCounts) {
  EndedEnvironments kept;
  kept.add(id(1), "one", kNow, kLater);
  kept.add(id(1), "two", kNow, kLater);
  EXPECT_EQ(*kept.find(id(1)), "two");
  EXPECT_EQ(kept.size(), 1U);
}

}  // namespace
}  // namespace muster::launcherd::ended_environments_test
