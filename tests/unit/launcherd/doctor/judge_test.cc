#include "launcherd/doctor/judge.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/launcherd/doctor/healthy_host.h"

namespace muster::launcherd::judge_test {
namespace {

using model::Check;
using model::CheckState;
using model::HostDiagnosis;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing_support::healthy_host;

HostFindings down(const char* name) {
  HostFindings findings;
  findings.host.name = name;
  findings.failure = FailureKind::kRefused;
  findings.status = to_status({.kind = FailureKind::kRefused, .host = name});
  return findings;
}

std::vector<std::string> names(const HostDiagnosis& diagnosis) {
  std::vector<std::string> result;
  for (const Check& check : diagnosis.checks) result.push_back(check.name);
  return result;
}

TEST(Judge, AllChecksOfAHostInOrder) {
  const HostDiagnosis diagnosis = judge_host(healthy_host("n1"), "auto");
  EXPECT_THAT(names(diagnosis), ElementsAre("name", "ssh", "back-connection", "link", "clock", "threads", "kernel",
                                            "containment", "logind", "cores", "gpus", "nics", "python", "torch"));
  EXPECT_EQ(diagnosis.state(), CheckState::kOk);
}

TEST(Judge, AHostThatIsDownHasItsRowAndTheOthersTheirs) {
  const auto diagnoses = judge_hosts({healthy_host("n1"), down("n2")}, "auto");
  ASSERT_EQ(diagnoses.size(), 2u);
  EXPECT_EQ(diagnoses[0].state(), CheckState::kOk);
  EXPECT_THAT(names(diagnoses[1]), ElementsAre("name", "ssh"));
  EXPECT_EQ(diagnoses[1].checks[1].state, CheckState::kFail);
  EXPECT_THAT(diagnoses[1].checks[1].seen, HasSubstr("connection refused"));
}

TEST(Judge, NothingIsKnownWhenNobodyAnswers) {
  EXPECT_TRUE(no_host_answered({down("n1"), down("n2")}));
  EXPECT_FALSE(no_host_answered({down("n1"), healthy_host("n2")}));
}

TEST(Judge, ADifferenceIsToldOfEveryHost) {
  HostFindings other = healthy_host("n2");
  other.facts->mutable_python()->set_version("3.9.1");
  const auto diagnoses = judge_hosts({healthy_host("n1"), other, healthy_host("n3")}, "auto");
  ASSERT_EQ(diagnoses[1].differences.size(), 1u);
  EXPECT_EQ(diagnoses[1].differences[0].seen, "3.9.1");
  EXPECT_EQ(diagnoses[0].differences[0].seen, "3.11.2");
  EXPECT_EQ(diagnoses[0].state(), CheckState::kWarn);
}

TEST(Judge, TwoNamesOfOneHost) {
  HostFindings other = healthy_host("n2");
  other.facts->mutable_hello()->set_hostname("n1");
  const auto diagnoses = judge_hosts({down("n0"), healthy_host("n1"), other}, "auto");
  EXPECT_EQ(diagnoses[1].checks[0].seen, "10.0.0.2, calls itself n1");
  EXPECT_EQ(diagnoses[2].checks[0].seen, "10.0.0.2, calls itself n1, the same host as n1");
}

TEST(Judge, WhatAHostSaysIsPrintableAndBounded) {
  HostFindings hostile = healthy_host("n1");
  hostile.facts->mutable_python()->set_version("3\x1b[31m\n\r");
  hostile.facts->mutable_python()->set_path(std::string(100'000, 'x') + "\xff");
  hostile.facts->mutable_hello()->set_hostname("\x07\xc3(");
  const HostDiagnosis diagnosis = judge_host(hostile, "auto");
  for (const Check& check : diagnosis.checks) {
    EXPECT_LT(check.seen.size(), 2000u);
    EXPECT_TRUE(std::ranges::none_of(check.seen, [](unsigned char c) { return c < 0x20 || c == 0x7f; })) << check.seen;
  }
}

}  // namespace
}  // namespace muster::launcherd::judge_test
