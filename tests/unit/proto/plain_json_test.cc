#include "proto/plain_json.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "proto/muster/v1/launcher.pb.h"

namespace muster::proto::plain_json_test {
namespace {

std::string error_of(std::string_view json) {
  v1::SubmitRequest request;
  const base::Status status = parse_plain_json(json, request);
  return status.ok() ? "ok" : status.message();
}

TEST(PlainJson, BytesAreTextOrBase64) {
  v1::SubmitRequest request;
  const base::Status status = parse_plain_json(
      R"({"spec": {"command": ["sleep", "c2xlZXA=", "é", {"base64": "/w=="}], "working_directory": "/tmp"},
          "environment": [{"name": "A", "value": "b c"}]})",
      request);
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(request.spec().command_size(), 4);
  EXPECT_EQ(request.spec().command(0), "sleep");
  EXPECT_EQ(request.spec().command(1), "c2xlZXA=");  // no guess
  EXPECT_EQ(request.spec().command(2), "\xc3\xa9");
  EXPECT_EQ(request.spec().command(3), "\xff");
  EXPECT_EQ(request.spec().working_directory(), "/tmp");
  EXPECT_EQ(request.environment(0).value(), "b c");
}

TEST(PlainJson, ReadsAllKindsOfFields) {
  v1::SubmitRequest request;
  const base::Status status = parse_plain_json(
      R"({"requestId": "once", "priority": -3, "held": true, "retention": "3600s", "labels": [{"name": "a"}],
          "spec": {"expand": [0, "7"], "limits": [{"resource": 7, "soft": "18446744073709551615", "hard": 5}],
                   "on_exit": "ON_EXIT_WAIT", "failure": {"on_failure": "restart"}, "timeout": "1.5s",
                   "deadline": "2026-06-20T17:05:53Z", "container": null}})",
      request);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(request.request_id(), "once");
  EXPECT_EQ(request.priority(), -3);
  EXPECT_TRUE(request.held());
  EXPECT_EQ(request.retention().seconds(), 3600);
  EXPECT_EQ(request.spec().expand(1), 7U);
  EXPECT_EQ(request.spec().limits(0).soft(), ~std::uint64_t{0});
  EXPECT_EQ(request.spec().on_exit(), v1::ON_EXIT_WAIT);
  EXPECT_EQ(request.spec().failure().on_failure(), v1::ON_FAILURE_RESTART);
  EXPECT_EQ(request.spec().timeout().nanos(), 500'000'000);
  EXPECT_EQ(request.spec().deadline().seconds(), 1'781'975'153);
  EXPECT_FALSE(request.spec().has_container());
}

TEST(PlainJson, ErrorsNameTheField) {
  EXPECT_EQ(error_of("[]"), "body: must be a JSON object");
  EXPECT_EQ(error_of("{").substr(0, 11), "body: JSON:");
  EXPECT_EQ(error_of(R"({"spec": 3})"), "spec: must be a JSON object");
  EXPECT_EQ(error_of(R"({"spec": {"hosts": [{}, {"slots": "x"}]}})"),
            "spec.hosts[1].slots: must be a whole number from -2147483648 to 2147483647");
  EXPECT_EQ(error_of(R"({"spec": {"hosts": {}}})"), "spec.hosts: must be an array");
  EXPECT_EQ(error_of(R"({"spec": {"sise": 3}})"), "spec.sise: is no field of JobSpec; did you mean size?");
  EXPECT_EQ(error_of(R"({"name": "a", "name": "b"})"), "name: is given twice");
  EXPECT_EQ(error_of(R"({"name": 3})"), "name: must be a string");
  EXPECT_EQ(error_of("{\"name\": \"\xff\"}"), "name: must be UTF-8 text");
  EXPECT_EQ(error_of(R"({"held": 1})"), "held: must be true or false");
  EXPECT_EQ(error_of(R"({"priority": 2147483648})"), "priority: must be a whole number from -2147483648 to 2147483647");
  EXPECT_EQ(error_of(R"({"priority": 1.5})"), "priority: must be a whole number from -2147483648 to 2147483647");
  EXPECT_EQ(error_of(R"({"retention": "soon"})"), R"(retention: must be a time in seconds such as "90s" or "1.5s")");
  EXPECT_EQ(error_of(R"({"spec": {"on_exit": "nothing"}})"),
            "spec.on_exit: must be one of: unspecified, nonzero_kill, any_kill, wait");
  const std::string bytes = R"(spec.command[0]: must be a string of UTF-8, or {"base64": "..."} for other bytes)";
  EXPECT_EQ(error_of(R"({"spec": {"command": [{"base64": "*"}]}})"), bytes);
  EXPECT_EQ(error_of(R"({"spec": {"command": [{"base64": "AAAA", "x": 1}]}})"), bytes);
  EXPECT_EQ(error_of(R"({"spec": {"command": [7]}})"), bytes);
}

TEST(PlainJson, RefusesDeepDocuments) {
  const std::string deep = R"({"spec": )" + std::string(100, '[') + std::string(100, ']') + "}";
  v1::SubmitRequest request;
  EXPECT_EQ(parse_plain_json(deep, request).code(), base::Code::kResourceExhausted);
}

TEST(PlainJson, ReadsArgumentsOfUrls) {
  v1::ListJobsRequest list;
  EXPECT_TRUE(set_field_from_text("all", "1", list).ok());
  EXPECT_TRUE(set_field_from_text("states", "running,JOB_STATE_FAILED", list).ok());
  EXPECT_TRUE(set_field_from_text("order", "size", list).ok());
  EXPECT_TRUE(list.all());
  ASSERT_EQ(list.states_size(), 2);
  EXPECT_EQ(list.states(1), v1::JOB_STATE_FAILED);
  EXPECT_EQ(list.order(), v1::JOB_ORDER_SIZE);
  EXPECT_EQ(set_field_from_text("all", "yes", list).message(), "all: must be 1 or 0");
  EXPECT_EQ(set_field_from_text("token", "secret", list).message(), "token: is no argument of this path");
  v1::LogsRequest logs;
  EXPECT_TRUE(set_field_from_text("ranks", "0-2,7", logs).ok());
  EXPECT_EQ(logs.ranks_size(), 4);
  EXPECT_TRUE(set_field_from_text("since", "2026-06-20T17:05:53Z", logs).ok());
  EXPECT_FALSE(set_field_from_text("ranks", "0-20000", logs).ok());
  EXPECT_FALSE(set_field_from_text("ranks", "-1", logs).ok());
  v1::SubmitRequest submit;
  EXPECT_FALSE(set_field_from_text("spec", "x", submit).ok());
}

TEST(PlainJson, ThePathNamesAField) {
  v1::KillRequest kill;
  EXPECT_TRUE(set_field_from_path("job", "k7", kill).ok());
  EXPECT_EQ(kill.job(), "k7");
  EXPECT_TRUE(set_field_from_path("job", "k7", kill).ok());
  EXPECT_EQ(set_field_from_path("job", "k8", kill).message(), "job: differs from the one in the path: leave it out");
  EXPECT_FALSE(set_field_from_path("job", "\xff", kill).ok());
}

TEST(PlainJson, OutputIsText) {
  v1::LogChunk chunk;
  chunk.set_data("\"a\"\n\xc3\xa9");
  chunk.set_lost_host("\"data\":\"\"");
  auto line = base::parse_json(log_line(chunk));
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(line->text_at("text"), "\"a\"\n\xc3\xa9");
  EXPECT_EQ(line->find("data"), nullptr);
  EXPECT_EQ(line->text_at("lost_host"), "\"data\":\"\"");
  chunk.set_data("a\xff");
  line = base::parse_json(log_line(chunk));
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(line->text_at("text"), "a\xef\xbf\xbd");
  EXPECT_EQ(line->find("data")->text_at("base64"), "Yf8=");
}

}  // namespace
}  // namespace muster::proto::plain_json_test
