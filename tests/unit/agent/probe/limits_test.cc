#include "agent/probe/limits.h"

#include <sys/resource.h>

#include <algorithm>

#include <gtest/gtest.h>

namespace muster::agent::limits_test {
namespace {

const v1::LimitFact* find(const std::vector<v1::LimitFact>& facts, const std::string& name) {
  const auto found = std::ranges::find_if(facts, [&](const v1::LimitFact& fact) { return fact.name() == name; });
  return found == facts.end() ? nullptr : &*found;
}

TEST(Limits, AreThoseOfThisProcess) {
  struct rlimit limit {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit lower{std::min<rlim_t>(limit.rlim_cur, 200), limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &lower), 0);
  const auto facts = read_limits();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  ASSERT_NE(find(facts, "nofile"), nullptr);
  EXPECT_EQ(find(facts, "nofile")->soft(), static_cast<std::int64_t>(lower.rlim_cur));
  EXPECT_NE(find(facts, "memlock"), nullptr);
  EXPECT_NE(find(facts, "nproc"), nullptr);
}

TEST(Limits, UnlimitedIsMinusOne) {
  const auto facts = read_limits();
  struct rlimit limit {};
  ASSERT_EQ(::getrlimit(RLIMIT_MEMLOCK, &limit), 0);
  const v1::LimitFact* const memlock = find(facts, "memlock");
  ASSERT_NE(memlock, nullptr);
  EXPECT_EQ(memlock->hard() == -1, limit.rlim_max == RLIM_INFINITY);
}

}  // namespace
}  // namespace muster::agent::limits_test
