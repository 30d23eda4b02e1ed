#include "collectives/call/farewell.h"

#include <gtest/gtest.h>

namespace muster::collectives::farewell_test {
namespace {

TEST(FarewellTest, WaitsInVainTakeTwoSecondsTogether) {
  Farewell farewell;
  EXPECT_EQ(farewell.time(), Farewell::kAll);
  farewell.waited(Farewell::Time{1500}, false);
  EXPECT_EQ(farewell.time(), Farewell::Time{500});
  farewell.waited(Farewell::Time{501}, false);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(farewell.time(), Farewell::kLeast);
    farewell.waited(Farewell::kLeast, false);
  }
}

TEST(FarewellTest, WhereOthersComeItIsAsBefore) {
  Farewell farewell;
  farewell.waited(Farewell::kAll, false);
  EXPECT_FALSE(farewell.wait([](Farewell::Time time) {
    EXPECT_EQ(time, Farewell::kLeast);
    return false;
  }));
  EXPECT_TRUE(farewell.wait([](Farewell::Time) { return true; }));
  EXPECT_EQ(farewell.time(), Farewell::kAll);
}

}  // namespace
}  // namespace muster::collectives::farewell_test
