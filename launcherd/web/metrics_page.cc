#include "launcherd/web/metrics_page.h"

#include <utility>

#include "launcherd/web/http_error.h"
#include "launcherd/web/metrics.h"

namespace muster::launcherd::inline web {
namespace {

constexpr int kMostCounted = 1000;  // the most jobs that /metrics counts

// Lists up to kMostCounted jobs that have started and not ended, without their long fields. `jobs` holds the jobs of
// earlier pages. Several pages are needed, because jobs with long commands make short pages.
void list_started_jobs(ApiHandler* handler, v1::ListJobsResponse jobs, Reply<v1::ListJobsResponse> done) {
  v1::ListJobsRequest request;
  request.set_page_size(kMostCounted);
  for (const auto state : {v1::JOB_STATE_STARTING, v1::JOB_STATE_RUNNING, v1::JOB_STATE_STOPPING}) {
    request.add_states(state);
  }
  request.set_page_token(jobs.next_page_token());
  handler->list_jobs(request, [handler, jobs = std::move(jobs),
                               done = std::move(done)](const base::Result<v1::ListJobsResponse>& page) mutable {
    if (!page.ok()) return done(page.status());
    for (const v1::Job& job : page->jobs()) {
      v1::Job& counted = *jobs.add_jobs();
      counted.set_attempt(job.attempt());
      *counted.mutable_late() = job.late();
    }
    jobs.set_next_page_token(page->next_page_token());
    const bool is_last = page->jobs().empty() || page->next_page_token().empty();
    if (is_last || jobs.jobs_size() >= kMostCounted) return done(std::move(jobs));
    list_started_jobs(handler, std::move(jobs), std::move(done));
  });
}

}  // namespace

void serve_metrics(ApiHandler* handler, const std::shared_ptr<HttpExchange>& exchange) {
  handler->get_capabilities({}, [handler, exchange](const base::Result<v1::Capabilities>& launcher) {
    if (!launcher.ok()) return refuse(exchange, launcher.status());
    handler->list_hosts({}, [handler, exchange,
                             launcher = *launcher](const base::Result<v1::ListHostsResponse>& hosts) {
      if (!hosts.ok()) return refuse(exchange, hosts.status());
      list_started_jobs(handler, {},
                        [handler, exchange, launcher, hosts = *hosts](const base::Result<v1::ListJobsResponse>& jobs) {
                          if (!jobs.ok()) return refuse(exchange, jobs.status());
                          exchange->answer(200, "text/plain; version=0.0.4; charset=utf-8",
                                           format_metrics(launcher, hosts, *jobs, handler->counters()));
                        });
    });
  });
}

}  // namespace muster::launcherd::web
