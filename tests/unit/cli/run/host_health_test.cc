#include "cli/run/host_health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/launcherd/doctor/healthy_host.h"

namespace muster::cli::host_health_test {
namespace {

using launcherd::HostFindings;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

HostFindings well(const std::string& name, int gpus = 0) {
  HostFindings findings = testing_support::healthy_host(name);
  for (int i = 0; i < gpus; ++i) findings.facts->mutable_hello()->add_gpus()->set_index(i);
  return findings;
}

std::vector<std::string> problems(const std::vector<HostFindings>& findings, bool uses_gpus = true) {
  std::vector<std::string> problems;
  for (const HostHealth& host : health_of(findings, "auto", uses_gpus)) problems.push_back(host.problem);
  return problems;
}

TEST(HostHealth, NamesEveryHost) {
  const auto health = health_of({well("n1"), well("n2")}, "auto", true);
  ASSERT_EQ(health.size(), 2U);
  EXPECT_EQ(health[1].host, "n2");
  EXPECT_THAT(problems({well("n1"), well("n2")}), ElementsAre(IsEmpty(), IsEmpty()));
}

HostFindings down(const std::string& name) {
  HostFindings findings;
  findings.host.name = name;
  findings.failure = launcherd::FailureKind::kRefused;
  findings.status = launcherd::to_status({.kind = launcherd::FailureKind::kRefused, .host = name});
  return findings;
}

TEST(HostHealth, ReportsAHostThatDoesNotAnswer) {
  EXPECT_THAT(problems({well("n1"), down("n2")}), ElementsAre(IsEmpty(), HasSubstr("connection refused")));
}

TEST(HostHealth, ReportsAClockThatIsOff) {
  HostFindings late = well("n2");
  late.clock = launcherd::ClockSample{.offset = std::chrono::seconds(-30), .uncertainty = {}};
  EXPECT_THAT(problems({well("n1"), late}), ElementsAre(IsEmpty(), HasSubstr("clock: ")));
}

TEST(HostHealth, ReportsAFullDisk) {
  HostFindings full = well("n2");
  v1::SpaceFact& space = *full.facts->add_spaces();
  space.set_purpose("session");
  space.set_path("/tmp");
  space.set_total_bytes(1 << 30);
  space.set_free_bytes(1000);
  space.set_free_files(-1);
  space.set_writable(true);
  EXPECT_THAT(problems({well("n1"), full}), ElementsAre(IsEmpty(), HasSubstr("disk: ")));
}

TEST(HostHealth, IgnoresChecksOfPrograms) {
  HostFindings bare = well("n1");
  bare.facts->mutable_python()->set_failure("there is no python3");
  EXPECT_THAT(problems({bare}), ElementsAre(IsEmpty()));
}

TEST(HostHealth, ReportsFewerGpusThanMostHostsHave) {
  EXPECT_THAT(problems({well("n1", 4), well("n2", 3), well("n3", 4)}),
              ElementsAre(IsEmpty(), "gpus: 3, but most hosts have 4", IsEmpty()));
  EXPECT_THAT(problems({well("n1", 4), well("n2", 3)}), ElementsAre(IsEmpty(), HasSubstr("but most hosts have 4")));
  EXPECT_THAT(problems({well("n1", 0), well("n2", 0), well("n3", 4)}), ElementsAre(IsEmpty(), IsEmpty(), IsEmpty()));
}

TEST(HostHealth, ReportsABrokenDriverWhenOthersWork) {
  HostFindings broken = well("n2", 4);
  broken.facts->mutable_hello()->set_gpu_problem("Driver/library version mismatch");
  EXPECT_THAT(problems({well("n1", 4), broken}), ElementsAre(IsEmpty(), "gpus: Driver/library version mismatch"));
  EXPECT_THAT(problems({well("n1", 4), broken}, false), ElementsAre(IsEmpty(), IsEmpty()));
  EXPECT_THAT(problems({broken, broken}), ElementsAre(IsEmpty(), IsEmpty()));
  EXPECT_THAT(problems({broken, down("n3")}), ElementsAre(IsEmpty(), HasSubstr("connection refused")))
      << "nobody has told of a better one";
}

}  // namespace
}  // namespace muster::cli::host_health_test
