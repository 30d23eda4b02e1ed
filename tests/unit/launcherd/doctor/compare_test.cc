#include "launcherd/doctor/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::launcherd::compare_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using namespace std::chrono_literals;

HostFindings host(const char* name, const char* python = "3.11.2", int cores = 4) {
  HostFindings findings;
  findings.host.name = name;
  v1::HostFacts& facts = findings.facts.emplace();
  facts.mutable_hello()->set_kernel("6.1.0");
  facts.mutable_hello()->set_containment("cgroup");
  for (int i = 0; i < cores; ++i) facts.mutable_hello()->add_cores()->add_cpus(i);
  facts.mutable_python()->set_version(python);
  facts.mutable_python()->set_torch("2.1.0");
  findings.clock = ClockSample{.offset = 0ms, .uncertainty = 1ms};
  return findings;
}

std::vector<std::string> names(const std::vector<Difference>& differences) {
  std::vector<std::string> result;
  for (const Difference& difference : differences) result.push_back(difference.name);
  return result;
}

TEST(Compare, AlikeOrAlone) {
  EXPECT_THAT(compare_hosts({}), IsEmpty());
  EXPECT_THAT(compare_hosts({host("n1")}), IsEmpty());
  EXPECT_THAT(compare_hosts({host("n1"), host("n2"), host("n3")}), IsEmpty());
}

TEST(Compare, WhoHasWhich) {
  const auto differences = compare_hosts({host("n1"), host("n2", "3.9.1"), host("n3")});
  ASSERT_THAT(names(differences), ElementsAre("python"));
  ASSERT_EQ(differences[0].values.size(), 2u);
  EXPECT_EQ(differences[0].values[0].first, "3.11.2");
  EXPECT_THAT(differences[0].values[0].second, ElementsAre(0u, 2u));
  EXPECT_EQ(differences[0].values[1].first, "3.9.1");
  EXPECT_THAT(differences[0].values[1].second, ElementsAre(1u));
}

TEST(Compare, CoresTorchAndKernel) {
  HostFindings other = host("n2", "3.11.2", 8);
  other.facts->mutable_hello()->set_kernel("5.10.0");
  other.facts->mutable_python()->set_torch("");
  EXPECT_THAT(names(compare_hosts({host("n1"), other})), ElementsAre("kernel", "cores", "torch"));
}

TEST(Compare, HostsThatDoNotSayCountForNothing) {
  HostFindings silent;
  silent.host.name = "n2";
  HostFindings without_python = host("n3", "");
  without_python.facts->mutable_python()->set_torch("");
  EXPECT_THAT(compare_hosts({host("n1"), silent, without_python}), IsEmpty());
}

TEST(Compare, ClocksMoreThanASecondApart) {
  HostFindings early = host("n1");
  HostFindings late = host("n2");
  early.clock = ClockSample{.offset = -700ms, .uncertainty = 1ms};
  late.clock = ClockSample{.offset = 700ms, .uncertainty = 1ms};
  EXPECT_THAT(names(compare_hosts({early, late})), ElementsAre("clock"));
  late.clock->uncertainty = 500ms;  // the clocks may be closer than measured
  EXPECT_THAT(compare_hosts({early, late}), IsEmpty());
}

}  // namespace
}  // namespace muster::launcherd::compare_test
