#include "base/env.h"

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::base::env_test {
namespace {

using ::testing::ElementsAre;

TEST(Environment, KeepsOrderAndReplacesInPlace) {
  Environment environment;
  environment.set("B", "1");
  environment.set("A", "x=y\nz");
  environment.set("B", "");
  EXPECT_THAT(environment.to_strings(), ElementsAre("B=", "A=x=y\nz"));
  EXPECT_EQ(environment.get("B"), "");
  EXPECT_EQ(environment.get("C"), std::nullopt);
  environment.unset("B");
  environment.unset("C");
  EXPECT_THAT(environment.to_strings(), ElementsAre("A=x=y\nz"));
}

TEST(Environment, CurrentHoldsWhatTheProcessHas) {
  ASSERT_EQ(::setenv("BASE_ENV_TEST", "a=b", 1), 0);
  EXPECT_EQ(Environment::current().get("BASE_ENV_TEST"), "a=b");
  EXPECT_EQ(env_var("BASE_ENV_TEST"), "a=b");
  ASSERT_EQ(::setenv("BASE_ENV_TEST", "", 1), 0);
  EXPECT_EQ(env_var("BASE_ENV_TEST"), "") << "empty is set";
  ASSERT_EQ(::unsetenv("BASE_ENV_TEST"), 0);
  EXPECT_EQ(Environment::current().get("BASE_ENV_TEST"), std::nullopt);
  EXPECT_EQ(env_var("BASE_ENV_TEST"), std::nullopt);
}

}  // namespace
}  // namespace muster::base::env_test
