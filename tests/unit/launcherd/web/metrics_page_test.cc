#include "launcherd/web/metrics_page.h"

#include <gtest/gtest.h>

#include "tests/unit/launcherd/web/fake_exchange.h"

namespace muster::launcherd::metrics_page_test {
namespace {

class Handler final : public ApiHandler {
 public:
  void get_capabilities(const v1::GetCapabilitiesRequest&, Reply<v1::Capabilities> reply) override {
    if (is_leaving) return reply(base::unavailable("launcherd is leaving"));
    reply(v1::Capabilities());
  }
  void list_hosts(const v1::ListHostsRequest&, Reply<v1::ListHostsResponse> reply) override {
    v1::ListHostsResponse hosts;
    hosts.add_hosts()->set_name("n1");
    reply(std::move(hosts));
  }
  // Two pages of jobs.
  void list_jobs(const v1::ListJobsRequest& request, Reply<v1::ListJobsResponse> reply) override {
    EXPECT_EQ(request.states_size(), 3);  // only jobs that have started
    v1::ListJobsResponse jobs;
    jobs.add_jobs()->set_attempt(1);
    if (request.page_token().empty()) jobs.set_next_page_token("2");
    reply(std::move(jobs));
  }
  JobCounters counters() const override { return {.submitted = 7, .queued = 5, .running = 2}; }

  bool is_leaving = false;
};

TEST(MetricsPage, CollectsFromAllCalls) {
  Handler handler;
  const auto exchange = std::make_shared<FakeExchange>();
  serve_metrics(&handler, exchange);
  EXPECT_EQ(exchange->status, 200);
  EXPECT_TRUE(exchange->content_type.starts_with("text/plain; version=0.0.4")) << exchange->content_type;
  for (const char* const line :
       {"muster_elastic_jobs 2\n", "muster_jobs{state=\"running\"} 2\n", "muster_jobs{state=\"queued\"} 5\n",
        "muster_jobs_submitted_total 7\n", "muster_host_slots{host=\"n1\"} 0\n"}) {
    EXPECT_NE(exchange->body.find(line), std::string::npos) << line << exchange->body;
  }
}

TEST(MetricsPage, AnErrorHasAStatus) {
  Handler handler;
  handler.is_leaving = true;
  const auto exchange = std::make_shared<FakeExchange>();
  serve_metrics(&handler, exchange);
  EXPECT_EQ(exchange->status, 503);
}

}  // namespace
}  // namespace muster::launcherd::metrics_page_test
