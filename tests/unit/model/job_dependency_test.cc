#include "model/job_dependency.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::model::job_dependency_test {
namespace {

using ::testing::HasSubstr;

TEST(JobDependency, IsMetByTheEndThatItNames) {
  for (const JobState state : all_job_states()) {
    if (!is_final(state)) {
      EXPECT_EQ(judge(AfterEnd::kOk, state), Dependency::kWaits) << name_of(state);
      EXPECT_EQ(judge(AfterEnd::kAny, state), Dependency::kWaits) << name_of(state);
      continue;
    }
    const bool is_success = state == JobState::kSucceeded;
    EXPECT_EQ(judge(AfterEnd::kOk, state), is_success ? Dependency::kMet : Dependency::kNever) << name_of(state);
    EXPECT_EQ(judge(AfterEnd::kAny, state), Dependency::kMet) << name_of(state);
  }
}

TEST(JobDependency, IsDescribed) {
  const base::JobId id = *base::JobId::parse("abcdefgh");
  EXPECT_EQ(describe({id, AfterEnd::kOk}), "the success of job abcdefgh");
  EXPECT_EQ(describe({id, AfterEnd::kAny}), "the end of job abcdefgh");
}

TEST(ParseDependency, ReadsTheJobAndTheCondition) {
  struct Row {
    const char* text;
    const char* job;
    AfterEnd condition;
  };
  for (const Row& row : {Row{"k7", "k7", AfterEnd::kOk}, Row{"k7:ok", "k7", AfterEnd::kOk},
                         Row{"k7:any", "k7", AfterEnd::kAny}, Row{"a:b:any", "a:b", AfterEnd::kAny}}) {
    const auto words = parse_dependency(row.text);
    ASSERT_TRUE(words.ok()) << row.text << ": " << words.status();
    EXPECT_EQ(words->job, row.job);
    EXPECT_EQ(words->condition, row.condition);
  }
}

TEST(ParseDependency, NamesWhatIsWrong) {
  EXPECT_EQ(parse_dependency("k7:never").status().message(), "unknown condition 'never' after 'k7'; use ok or any");
  EXPECT_THAT(parse_dependency("k7:").status().message(), HasSubstr("unknown condition ''"));
  for (const char* const text : {"", ":ok", ":"}) {
    EXPECT_EQ(parse_dependency(text).status().code(), base::Code::kInvalidArgument) << text;
    EXPECT_THAT(parse_dependency(text).status().message(), HasSubstr("JOB:ok")) << text;
  }
}

}  // namespace
}  // namespace muster::model::job_dependency_test
