#include "proto/diagnosis_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::proto::diagnosis_json_test {
namespace {

using model::CheckState;

TEST(DiagnosisJson, OneLine) {
  const model::HostDiagnosis diagnosis{
      .host = "al@n2",
      .checks = {{"name", CheckState::kOk, "10.0.0.2", ""}, {"disk", CheckState::kFail, "full\n\"", "free some"}},
      .differences = {{"python", CheckState::kWarn, "3.9.1", "same one"}}};
  EXPECT_EQ(diagnosis_line(diagnosis),
            R"({"host":"al@n2","state":"CHECK_STATE_FAIL","checks":[)"
            R"({"name":"name","state":"CHECK_STATE_OK","seen":"10.0.0.2","advice":""},)"
            R"({"name":"disk","state":"CHECK_STATE_FAIL","seen":"full\n\"","advice":"free some"}],)"
            R"("differences":[{"name":"python","state":"CHECK_STATE_WARN","seen":"3.9.1","advice":"same one"}]})"
            "\n");
}

TEST(DiagnosisJson, WhatIsNotUtf8IsReplaced) {
  const model::HostDiagnosis diagnosis{
      .host = "n", .checks = {{"name", CheckState::kOk, "a\xff", ""}}, .differences = {}};
  EXPECT_THAT(diagnosis_line(diagnosis), ::testing::HasSubstr("a\xef\xbf\xbd"));
}

}  // namespace
}  // namespace muster::proto::diagnosis_json_test
