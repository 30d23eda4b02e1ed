#include "launcherd/web/web_route.h"

#include <gtest/gtest.h>

namespace muster::launcherd::web_route_test {
namespace {

using Page = WebRoute::Page;

HttpRequest get(const std::string& target, const std::string& last_event_id = "") {
  return {.method = "GET", .target = target, .host = "localhost:7480", .last_event_id = last_event_id};
}

WebRoute route(const HttpRequest& request) {
  const auto found = find_route(request);
  const auto* const known = std::get_if<WebRoute>(&found);
  EXPECT_NE(known, nullptr) << request.target;
  return known == nullptr ? WebRoute() : *known;
}

int refusal(const HttpRequest& request) {
  const auto found = find_route(request);
  const auto* const refused = std::get_if<WebRefusal>(&found);
  return refused == nullptr ? 0 : refused->http_status;
}

base::Status error(const std::string& target) {
  const auto found = find_route(get(target));
  const auto* const status = std::get_if<base::Status>(&found);
  return status == nullptr ? base::ok_status() : *status;
}

TEST(WebRoute, Pages) {
  EXPECT_EQ(route(get("/")).file->name, "page.html");
  EXPECT_EQ(route(get("/page.js")).file->name, "page.js");
  EXPECT_EQ(route(get("/healthz")).page, Page::kHealth);
  EXPECT_EQ(route(get("/metrics")).page, Page::kMetrics);
  EXPECT_EQ(route(get("/api/hosts")).page, Page::kHosts);
  const WebRoute jobs = route(get("/api/jobs?all=1&page_token=t"));
  EXPECT_EQ(jobs.page, Page::kJobs);
  EXPECT_TRUE(jobs.all);
  EXPECT_EQ(jobs.page_token, "t");
  EXPECT_EQ(jobs.page_size, 0);
  EXPECT_EQ(route(get("/api/jobs?page_size=1000&page_token=")).page_size, 1000);
  EXPECT_EQ(error("/api/jobs?page_size=1001").code(), base::Code::kInvalidArgument);
  EXPECT_FALSE(route(get("/api/jobs?all=yes")).all);
  EXPECT_EQ(route(get("/api/jobs/k7")).page, Page::kJob);
  EXPECT_EQ(route(get("/api/jobs/k%37")).job, "k7");
}

TEST(WebRoute, StreamsGoOnWhereTheyWere) {
  const WebRoute events = route(get("/api/jobs/k7/events?from=5"));
  EXPECT_EQ(events.page, Page::kEvents);
  EXPECT_EQ(events.job, "k7");
  EXPECT_EQ(events.from, 5U);
  EXPECT_EQ(route(get("/api/jobs/k7/events?from=5", "8")).from, 9U);
  EXPECT_EQ(route(get("/api/jobs/k7/events?from=5", "x")).from, 5U);
  EXPECT_EQ(route(get("/api/jobs/k7/events", "9223372036854775806")).from, 9223372036854775807U);
  EXPECT_EQ(route(get("/api/jobs/k7/events", "9223372036854775807")).from, 0U);
  const WebRoute logs = route(get("/api/jobs/k7/logs?tail=10&rank=3", "4096"));
  EXPECT_EQ(logs.page, Page::kLogs);
  EXPECT_EQ(logs.tail_lines, 10);
  EXPECT_EQ(logs.rank, 3);
  EXPECT_EQ(logs.from, 4096U);
  EXPECT_EQ(route(get("/api/jobs/k7/logs")).rank, std::nullopt);
}

TEST(WebRoute, WhatIsRefused) {
  EXPECT_EQ(refusal({.method = "GET", .target = "/", .host = "evil.example", .last_event_id = {}}), 421);
  EXPECT_EQ(refusal({.method = "GET", .target = "/", .host = {}, .last_event_id = {}}), 421);
  EXPECT_EQ(refusal({.method = "HEAD", .target = "/", .host = "localhost", .last_event_id = {}}), 405);
  EXPECT_EQ(refusal(get("/%")), 400);
  EXPECT_EQ(refusal(get("http://localhost/")), 400);
  for (const char* const none : {"/x", "/api", "/api/x", "/page.html/x", "/healthz/x", "/api/hosts/n1",
                                 "/api/jobs/k7/x", "/api/jobs/k7/events/x", "/etc/passwd", "/..%2fpage.js"}) {
    EXPECT_EQ(error(none).code(), base::Code::kNotFound) << none;
  }
  for (const char* const bad : {"/api/jobs/k7/events?from=-1", "/api/jobs/k7/events?from=",
                                "/api/jobs/k7/logs?tail=1e9", "/api/jobs/k7/logs?tail=100001",
                                "/api/jobs/k7/logs?rank=1000001", "/api/jobs/k7/events?from=99999999999999999999"}) {
    EXPECT_EQ(error(bad).code(), base::Code::kInvalidArgument) << bad;
  }
}

}  // namespace
}  // namespace muster::launcherd::web_route_test
