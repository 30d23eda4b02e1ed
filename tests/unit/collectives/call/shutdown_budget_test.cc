#include "collectives/call/shutdown_budget.h"

#include <gtest/gtest.h>

namespace muster::collectives::shutdown_budget_test {
namespace {

TEST(ShutdownBudgetTest, WaitsInVainTakeTwoSecondsTogether) {
  ShutdownBudget shutdown_budget;
  EXPECT_EQ(shutdown_budget.time(), ShutdownBudget::kAll);
  shutdown_budget.waited(ShutdownBudget::Time{1500}, false);
  EXPECT_EQ(shutdown_budget.time(), ShutdownBudget::Time{500});
  shutdown_budget.waited(ShutdownBudget::Time{501}, false);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(shutdown_budget.time(), ShutdownBudget::kLeast);
    shutdown_budget.waited(ShutdownBudget::kLeast, false);
  }
}

TEST(ShutdownBudgetTest, WhereOthersComeItIsAsBefore) {
  ShutdownBudget shutdown_budget;
  shutdown_budget.waited(ShutdownBudget::kAll, false);
  EXPECT_FALSE(shutdown_budget.wait([](ShutdownBudget::Time time) {
    EXPECT_EQ(time, ShutdownBudget::kLeast);
    return false;
  }));
  EXPECT_TRUE(shutdown_budget.wait([](ShutdownBudget::Time) { return true; }));
  EXPECT_EQ(shutdown_budget.time(), ShutdownBudget::kAll);
}

}  // namespace
}  // namespace muster::collectives::shutdown_budget_test
