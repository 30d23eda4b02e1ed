#include "proto/text_fields.h"

#include <gtest/gtest.h>

#include "proto/frame.h"
#include "proto/message_json.h"
#include "proto/muster/v1/agent.pb.h"
#include "proto/muster/v1/launcher.pb.h"

namespace muster::proto::text_fields_test {
namespace {

constexpr const char* kLatin = "caf\xe9";
constexpr const char* kMended = "caf\xef\xbf\xbd";

v1::AgentMessage host_empty() {
  v1::AgentMessage message;
  message.mutable_host_empty()->add_killed()->set_command("sleep");
  message.mutable_host_empty()->add_killed()->set_command(kLatin);
  message.mutable_host_empty()->set_failure(kLatin);
  return message;
}

TEST(TextFields, TheFirstBadFieldIsNamed) {
  EXPECT_TRUE(check_text(v1::AgentMessage()).ok());
  const base::Status bad = check_text(host_empty());
  EXPECT_EQ(bad.code(), base::Code::kInvalidArgument);
  EXPECT_EQ(bad.message().find("host_empty.killed.command: "), 0u) << bad;
}

TEST(TextFields, MendedMessagesCanBeRead) {
  v1::AgentMessage message = host_empty();
  EXPECT_FALSE(v1::AgentMessage().ParseFromString(message.SerializeAsString()));
  mend_text(message);
  EXPECT_TRUE(v1::AgentMessage().ParseFromString(message.SerializeAsString()));
  EXPECT_EQ(message.host_empty().killed(0).command(), "sleep");
  EXPECT_EQ(message.host_empty().killed(1).command(), kMended);
  EXPECT_EQ(message.host_empty().failure(), kMended);
}

TEST(TextFields, RepeatedTextIsMendedWordByWord) {
  v1::ExitReport report;
  report.add_stderr_tail("caf\xc3\xa9");
  report.add_stderr_tail("\xc3");
  mend_text(report);
  EXPECT_EQ(report.stderr_tail(0), "caf\xc3\xa9");
  EXPECT_EQ(report.stderr_tail(1), "\xef\xbf\xbd");
}

// What users choose byte for byte: words of commands, paths, names and values of variables.
TEST(TextFields, BytesStayAsTheyAre) {
  v1::LauncherMessage message;
  v1::Launch& launch = *message.mutable_launch();
  launch.add_command(kLatin);
  launch.set_workdir(kLatin);
  launch.add_ranks()->add_command(kLatin);
  launch.mutable_ranks(0)->set_workdir(kLatin);
  launch.mutable_container()->set_image(kLatin);
  launch.mutable_container()->add_args(kLatin);
  v1::EnvVar& variable = *launch.add_environment();
  variable.set_name(kLatin);
  variable.set_value(kLatin);
  const std::string before = message.SerializeAsString();
  EXPECT_TRUE(check_text(message).ok());
  mend_text(message);
  EXPECT_EQ(message.SerializeAsString(), before);
  EXPECT_TRUE(v1::LauncherMessage().ParseFromString(before));
}

TEST(TextFields, ASubmissionMayNameBytes) {
  v1::SubmitRequest request;
  v1::JobSpec& spec = *request.mutable_spec();
  spec.add_command(kLatin);
  spec.set_working_directory(kLatin);
  spec.add_stages()->set_source(kLatin);
  spec.mutable_stages(0)->set_destination(kLatin);
  spec.add_roles()->add_command(kLatin);
  spec.mutable_roles(0)->set_working_directory(kLatin);
  EXPECT_TRUE(check_text(request).ok());
  EXPECT_TRUE(v1::SubmitRequest().ParseFromString(request.SerializeAsString()));
  request.add_labels()->set_value(kLatin);
  EXPECT_EQ(check_text(request).message().find("labels.value: "), 0u);
}

TEST(TextFields, FramesAndJsonHoldText) {
  const std::string frame = *frame_message(host_empty());
  EXPECT_TRUE(v1::AgentMessage().ParseFromString(frame.substr(4)));
  EXPECT_NE(message_line(host_empty()).find(kMended), std::string::npos);
  EXPECT_EQ(mended_copy(v1::AgentMessage()), nullptr);
}

}  // namespace
}  // namespace muster::proto::text_fields_test
