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
  EXPECT_EQ(route(get("/api/jobs/k7/hang")).page, Page::kHang);
  EXPECT_EQ(route(get("/api/jobs/k7/hang")).job, "k7");
}

TEST(WebRoute, RanksOfAJobComeInParts) {
  EXPECT_EQ(route(get("/api/jobs/k7")).first_rank, 0);
  EXPECT_EQ(route(get("/api/jobs/k7")).max_ranks, 10'000);
  const WebRoute part = route(get("/api/jobs/k7?first_rank=2000&max_ranks=500"));
  EXPECT_EQ(part.first_rank, 2000);
  EXPECT_EQ(part.max_ranks, 500);
  EXPECT_EQ(route(get("/api/jobs/k7?max_ranks=0")).max_ranks, -1);  // none, as in GetJobRequest
  EXPECT_EQ(error("/api/jobs/k7?max_ranks=10001").code(), base::Code::kInvalidArgument);
  EXPECT_EQ(error("/api/jobs/k7?first_rank=-1").code(), base::Code::kInvalidArgument);
}

TEST(WebRoute, ListsOfJobsHaveAnOrderAndStates) {
  const WebRoute jobs = route(get("/api/jobs?all=1&filter=night%20run&states=running,failed&order=size&reverse=1"));
  EXPECT_EQ(jobs.filter, "night run");
  EXPECT_EQ(jobs.states, (std::vector<int>{3, 6}));
  EXPECT_EQ(jobs.order, 3);
  EXPECT_TRUE(jobs.reverse);
  const WebRoute standard = route(get("/api/jobs"));
  EXPECT_EQ(standard.order, 0);
  EXPECT_TRUE(standard.states.empty());
  EXPECT_FALSE(standard.reverse);
}

TEST(WebRoute, PagesOfHostsAndHistory) {
  EXPECT_EQ(route(get("/api/launcher")).page, Page::kLauncher);
  EXPECT_EQ(route(get("/api/hosts/n1")).host, "n1");
  EXPECT_TRUE(route(get("/api/hosts?brief=1")).brief);
  const WebRoute history = route(get("/api/history?job=k7&since=1700000000"));
  EXPECT_EQ(history.page, Page::kHistory);
  EXPECT_EQ(history.job, "k7");
  EXPECT_EQ(history.since, 1'700'000'000);
  EXPECT_EQ(route(get("/api/history?host=n1")).host, "n1");
}

TEST(WebRoute, PagesOfAJob) {
  EXPECT_EQ(route(get("/api/jobs/k7/spec")).page, Page::kSpec);
  const WebRoute stacks = route(get("/api/jobs/k7/stacks?rank=0-2,7&native=1"));
  EXPECT_EQ(stacks.page, Page::kStacks);
  EXPECT_EQ(stacks.ranks, (std::vector<int>{0, 1, 2, 7}));
  EXPECT_TRUE(stacks.native);
  const WebRoute download = route(get("/api/jobs/k7/log.txt?stream=stderr&rank=1"));
  EXPECT_EQ(download.page, Page::kDownload);
  EXPECT_EQ(download.stream, WebRoute::Stream::kErr);
  EXPECT_EQ(route(get("/api/jobs/k7/log.txt")).stream, WebRoute::Stream::kBoth);
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
  EXPECT_EQ(logs.ranks, (std::vector<int>{3}));
  EXPECT_EQ(logs.from, 4096U);
  EXPECT_EQ(route(get("/api/jobs/k7/logs")).ranks, std::vector<int>());
}

HttpRequest post(const std::string& target, const std::string& origin = "") {
  return {.method = "POST", .target = target, .host = "localhost:7480", .last_event_id = {}, .origin = origin};
}

TEST(WebRoute, Actions) {
  const WebRoute kill = route(post("/api/jobs/k7/kill?at_once=1", "http://localhost:7480"));
  EXPECT_EQ(kill.page, Page::kKill);
  EXPECT_EQ(kill.job, "k7");
  EXPECT_TRUE(kill.at_once);
  EXPECT_EQ(route(post("/api/jobs/k7/signal?signal=10")).signal, 10);
  const WebRoute drain = route(post("/api/hosts/n1/drain?reason=a%20fan"));
  EXPECT_EQ(drain.page, Page::kDrain);
  EXPECT_EQ(drain.host, "n1");
  EXPECT_EQ(drain.reason, "a fan");
  EXPECT_EQ(route(post("/api/hosts/n1/resume")).page, Page::kResume);
  EXPECT_EQ(route(post("/api/jobs/k7/hold")).page, Page::kHold);
  EXPECT_EQ(route(post("/api/jobs/k7/release")).page, Page::kRelease);
  const WebRoute rerun = route(post("/api/jobs/k7/rerun?request_id=once%201"));
  EXPECT_EQ(rerun.page, Page::kRerun);
  EXPECT_EQ(rerun.job, "k7");
  EXPECT_EQ(rerun.request_id, "once 1");
  EXPECT_EQ(route(post("/api/jobs/k7/rerun")).request_id, "");
  for (const Page page :
       {Page::kKill, Page::kSignal, Page::kHold, Page::kRelease, Page::kRerun, Page::kDrain, Page::kResume}) {
    EXPECT_TRUE(is_action(page));
  }
  for (const Page page : {Page::kFile, Page::kStacks, Page::kHistory, Page::kJob}) EXPECT_FALSE(is_action(page));
}

TEST(WebRoute, ActionsAreForOurOwnPage) {
  for (const char* const origin : {"http://evil.example", "null", "https://localhost:7480", "http://localhost:7481"}) {
    EXPECT_EQ(refusal(post("/api/jobs/k7/kill", origin)), 403) << origin;
  }
  for (const char* const target : {"/", "/api/jobs", "/api/jobs/k7", "/api/jobs/k7/stacks", "/api/hosts/n1", "/x"}) {
    const auto found = find_route(post(target));
    EXPECT_TRUE(std::holds_alternative<base::Status>(found)) << target;
  }
  for (const char* const target : {"/api/jobs/k7/kill", "/api/hosts/n1/drain", "/api/jobs/k7/signal?signal=10",
                                   "/api/jobs/k7/hold", "/api/jobs/k7/release", "/api/jobs/k7/rerun"}) {
    EXPECT_EQ(error(target).code(), base::Code::kNotFound) << target;  // by GET
  }
  for (const char* const bad :
       {"/api/jobs/k7/signal", "/api/jobs/k7/signal?signal=0", "/api/jobs/k7/signal?signal=65"}) {
    const auto found = find_route(post(bad));
    ASSERT_TRUE(std::holds_alternative<base::Status>(found)) << bad;
    EXPECT_EQ(std::get<base::Status>(found).code(), base::Code::kInvalidArgument) << bad;
  }
}

TEST(WebRoute, WhatIsRefused) {
  EXPECT_EQ(refusal({.method = "GET", .target = "/", .host = "evil.example", .last_event_id = {}}), 421);
  EXPECT_EQ(refusal({.method = "GET", .target = "/", .host = {}, .last_event_id = {}}), 421);
  EXPECT_EQ(refusal({.method = "HEAD", .target = "/", .host = "localhost", .last_event_id = {}}), 405);
  EXPECT_EQ(refusal(get("/%")), 400);
  EXPECT_EQ(refusal(get("http://localhost/")), 400);
  for (const char* const none : {"/x", "/api", "/api/x", "/page.html/x", "/healthz/x", "/api/hosts/n1/x",
                                 "/api/jobs/k7/x", "/api/jobs/k7/events/x", "/etc/passwd", "/..%2fpage.js"}) {
    EXPECT_EQ(error(none).code(), base::Code::kNotFound) << none;
  }
  for (const char* const bad :
       {"/api/jobs/k7/events?from=-1", "/api/jobs/k7/events?from=", "/api/jobs/k7/logs?tail=1e9",
        "/api/jobs/k7/logs?tail=100001", "/api/jobs/k7/logs?rank=1000001", "/api/jobs/k7/logs?rank=",
        "/api/jobs/k7/logs?rank=3-1", "/api/jobs/k7/logs?rank=1,0-9999", "/api/jobs/k7/log.txt?stream=x",
        "/api/jobs?order=x", "/api/jobs?states=x", "/api/history", "/api/history?job=k7&host=n1",
        "/api/history?job=k7&since=-1", "/api/jobs/k7/events?from=99999999999999999999"}) {
    EXPECT_EQ(error(bad).code(), base::Code::kInvalidArgument) << bad;
  }
}

}  // namespace
}  // namespace muster::launcherd::web_route_test
