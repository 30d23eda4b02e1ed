#include "launcherd/web/rest_request.h"

#include <google/protobuf/message.h>
#include <gtest/gtest.h>

namespace muster::launcherd::rest_request_test {
namespace {

constexpr std::string_view kToken = "secret-token";

HttpRequest request_for(const std::string& method, const std::string& target, const std::string& body = "") {
  HttpRequest request;
  request.method = method;
  request.target = "/api/v1/" + target;
  request.host = "localhost:7480";
  request.body = body;
  request.token = kToken;
  return request;
}

// Returns the message as text, or the status and the sentence of the refusal.
std::string read(const HttpRequest& request, const std::string& token = std::string(kToken)) {
  const auto head = read_rest_head(request, token);
  const auto* refusal = std::get_if<RestRefusal>(&head);
  if (refusal != nullptr) return fmt::format("{} {}", refusal->http_status, refusal->error.message());
  auto message = read_rest_message(std::get<RestHead>(head), request);
  refusal = std::get_if<RestRefusal>(&message);
  if (refusal != nullptr) return fmt::format("{} {}", refusal->http_status, refusal->error.message());
  return std::get<std::unique_ptr<google::protobuf::Message>>(message)->ShortDebugString();
}

TEST(RestRequest, MakesMessagesFromPathQueryAndBody) {
  EXPECT_EQ(read(request_for("GET", "jobs/k7?max_ranks=5")), "max_ranks: 5 job: \"k7\"");
  EXPECT_EQ(read(request_for("POST", "jobs/k7/kill", R"({"at_once": true})")), "at_once: true job: \"k7\"");
  EXPECT_EQ(read(request_for("POST", "jobs/k7/kill")), "job: \"k7\"");
  EXPECT_EQ(read(request_for("POST", "jobs", R"({"spec": {"command": ["true"]}})")), "spec { command: \"true\" }");
  EXPECT_EQ(read(request_for("GET", "jobs?states=running&all=1")), "all: true states: JOB_STATE_RUNNING");
}

TEST(RestRequest, GoesOnBehindTheLastEvent) {
  HttpRequest events = request_for("GET", "jobs/k7/events?from_sequence=2");
  events.last_event_id = "7";
  EXPECT_EQ(read(events), "from_sequence: 8 job: \"k7\"");
  events.last_event_id = "x";
  EXPECT_EQ(read(events), "400 Last-Event-ID: must be the id of an event");
  HttpRequest logs = request_for("GET", "jobs/k7/logs?follow=1");
  logs.last_event_id = "7";
  EXPECT_EQ(read(logs), "job: \"k7\" follow: true from_position: 7");
  logs.last_event_id = "99999999999999999999";
  EXPECT_EQ(read(logs).substr(0, 3), "400");
}

TEST(RestRequest, WritingNeedsTheToken) {
  HttpRequest kill = request_for("POST", "jobs/k7/kill");
  EXPECT_EQ(read(kill, "").substr(0, 3), "403");
  kill.token = "";
  EXPECT_EQ(read(kill).substr(0, 3), "401");
  kill.token = "secret-tokem";
  EXPECT_EQ(read(kill).substr(0, 3), "401");
  kill.token = "secret";
  EXPECT_EQ(read(kill).substr(0, 3), "401");
  kill.token = kToken;
  kill.origin = "http://evil.example";
  EXPECT_EQ(read(kill).substr(0, 3), "403");
  kill.origin = "http://localhost:7480";
  EXPECT_EQ(read(kill), "job: \"k7\"");
  HttpRequest get = request_for("GET", "hosts");
  get.token = "";
  EXPECT_EQ(read(get, ""), "");
}

TEST(RestRequest, RefusesWhatMakesNoSense) {
  EXPECT_EQ(read(request_for("GET", "nothing")).substr(0, 3), "404");
  EXPECT_EQ(read(request_for("DELETE", "jobs/k7")), "405 this path serves GET only");
  EXPECT_EQ(read(request_for("POST", "jobs/k7/exec")),
            "501 exec needs streams both ways, which this interface lacks: use muster exec, gRPC or muster.client");
  EXPECT_EQ(read(request_for("GET", "jobs?token=x")), "400 token: is no argument of this path");
  EXPECT_EQ(read(request_for("GET", "jobs/k7?job=k8")), "400 job: belongs in the path");
  EXPECT_EQ(read(request_for("GET", "jobs/%")), "400 invalid path");
  EXPECT_EQ(read(request_for("POST", "jobs?name=x", "{}")), "400 arguments of POST belong in the body, as JSON");
  EXPECT_EQ(read(request_for("POST", "jobs", "[]")), "400 body: must be a JSON object");
  EXPECT_EQ(read(request_for("POST", "jobs", std::string(100, '['))), "400 body: JSON: deeper than 32 levels");
  HttpRequest form = request_for("POST", "jobs", "a=b");
  form.content_type = "application/x-www-form-urlencoded";
  EXPECT_EQ(read(form).substr(0, 3), "415");
  form.content_type = "Application/JSON; charset=utf-8";
  form.body = "{}";
  EXPECT_EQ(read(form), "");
  HttpRequest elsewhere = request_for("GET", "jobs");
  elsewhere.host = "evil.example";
  EXPECT_EQ(read(elsewhere).substr(0, 3), "421");
}

TEST(RestRequest, KnowsItsTargets) {
  EXPECT_TRUE(is_rest_target("/api/v1/jobs"));
  EXPECT_FALSE(is_rest_target("/api/jobs"));
  EXPECT_FALSE(is_rest_target("/api/v1"));
}

}  // namespace
}  // namespace muster::launcherd::rest_request_test
