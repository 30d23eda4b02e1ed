#include "proto/field_names.h"

#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include "proto/muster/v1/launcher.pb.h"

namespace muster::proto::field_names_test {
namespace {

TEST(FieldNames, FieldsHaveTwoNames) {
  const auto& type = *v1::JobSpec::descriptor();
  const auto* const field = find_field(type, "working_directory");
  ASSERT_NE(field, nullptr);
  EXPECT_EQ(find_field(type, "workingDirectory"), field);
  EXPECT_EQ(find_field(type, "WorkingDirectory"), nullptr);
}

TEST(FieldNames, EnumeratorsHaveTwoNames) {
  const auto& type = *v1::JobState_descriptor();
  ASSERT_NE(find_enumerator(type, "running"), nullptr);
  EXPECT_EQ(find_enumerator(type, "running")->number(), v1::JOB_STATE_RUNNING);
  EXPECT_EQ(find_enumerator(type, "JOB_STATE_RUNNING")->number(), v1::JOB_STATE_RUNNING);
  EXPECT_EQ(find_enumerator(type, "3"), nullptr);
  EXPECT_EQ(short_names(*v1::OnHang_descriptor()),
            (std::vector<std::string>{"unspecified", "warn", "restart", "kill"}));
}

TEST(FieldNames, TimesAreStrings) {
  EXPECT_TRUE(is_time(*v1::JobSpec::descriptor()->FindFieldByName("timeout")->message_type()));
  EXPECT_TRUE(is_time(*v1::JobSpec::descriptor()->FindFieldByName("deadline")->message_type()));
  EXPECT_FALSE(is_time(*v1::JobSpec::descriptor()));
}

}  // namespace
}  // namespace muster::proto::field_names_test
