#include "collectives/kernel/isa.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/env.h"

namespace muster::collectives::isa_test {
namespace {

std::vector<std::string> names() {
  std::vector<std::string> names;
  for (const Isa* isa : isas()) names.emplace_back(isa->name);
  return names;
}

TEST(Isa, ScalarIsAlwaysThereAndLast) {
  EXPECT_EQ(names().back(), "scalar");
}

// ctest runs this program with several values of the variable, and without it.
TEST(Isa, EnvironmentChoosesAmongThem) {
  const auto wanted = base::env_var("MUSTER_ISA");
  const auto known = names();
  if (wanted && std::ranges::find(known, *wanted) != known.end()) {
    EXPECT_EQ(kernel_isa(), *wanted);
  } else {
    EXPECT_EQ(kernel_isa(), known.front());
  }
}

TEST(Isa, EveryTypeAndOperationIsInEveryTable) {
  for (const Isa* isa : isas()) {
    EXPECT_NE(isa->copy_streaming, nullptr);
    for (const auto& row : isa->reduce) EXPECT_THAT(row, testing::Each(testing::NotNull()));
  }
}

}  // namespace
}  // namespace muster::collectives::isa_test
