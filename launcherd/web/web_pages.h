// WebPages serves launcherd's HTTP port. RestCalls serves /api/v1. WebPages itself answers GET requests for these
// targets, which are for launcherd's own page:
//   /                               the page, /page.js, /page.css
//   /healthz                        "ok"
//   /metrics                        Prometheus' text format
//   /api/launcher                   v1.Capabilities
//   /api/jobs?all=1&page_token=T&page_size=N&filter=TEXT&states=A,B&order=O&reverse=1
//                                   v1.ListJobsResponse
//   /api/hosts?brief=1              v1.ListHostsResponse
//   /api/hosts/NAME                 v1.LauncherHost
//   /api/jobs/ID?first_rank=N&max_ranks=N  v1.Job; without ranks if max_ranks is 0
//   /api/jobs/ID/spec               v1.JobSpec (bytes in base64)
//   /api/jobs/ID/events?from=N      server-sent v1.Event, until the job has ended
//   /api/jobs/ID/logs?tail=N&rank=R server-sent v1.LogChunk (data in base64), until the job has ended
//   /api/jobs/ID/log.txt?rank=R&stream=stderr  the present output as a file
//   /api/jobs/ID/stacks?rank=R&native=1        server-sent v1.ProcessStack
//   /api/jobs/ID/hang               v1.HangReport, made now
//   /api/history?job=ID&since=T, or ?host=NAME v1.HistoryResponse; without hosts for a job
// With --http-write also POST with the header X-Muster-Token, and no body:
//   /api/jobs/ID/kill?at_once=1, /api/jobs/ID/signal?signal=10, /api/jobs/ID/hold, /api/jobs/ID/release,
//   /api/jobs/ID/rerun?request_id=TEXT (answers v1.SubmitResponse), /api/hosts/NAME/drain?reason=TEXT,
//   /api/hosts/NAME/resume
// The content is that of the calls of launcher.proto. An error is {"code", "message"} with an HTTP status. All other
// requests are read-only.
//
// Thread: the loop thread only. Owner: `handler` is borrowed.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "launcherd/service/api_handler.h"
#include "launcherd/web/http_exchange.h"
#include "launcherd/web/rest_calls.h"
#include "launcherd/web/web_route.h"

namespace muster::launcherd::inline web {

class WebPages {
 public:
  // Without a token no action is served.
  WebPages(ApiHandler* handler, const std::string& write_token)
      : handler_(handler), write_token_(write_token), rest_(handler, write_token) {}

  std::optional<std::size_t> body_limit(const HttpRequest& head) const;  // as BodyLimit
  void serve(const HttpRequest& request, const std::shared_ptr<HttpExchange>& exchange);

 private:
  using Exchange = std::shared_ptr<HttpExchange>;

  void serve_page(const WebRoute& route, const Exchange& exchange);
  void serve_jobs(const WebRoute& route, const Exchange& exchange);
  void serve_job(const WebRoute& route, const Exchange& exchange);
  void serve_events(const WebRoute& route, const Exchange& exchange);
  void serve_logs(const WebRoute& route, const Exchange& exchange);
  void serve_download(const WebRoute& route, const Exchange& exchange);
  void serve_stacks(const WebRoute& route, const Exchange& exchange);
  void serve_hang(const WebRoute& route, const Exchange& exchange);
  void serve_hosts(const WebRoute& route, const Exchange& exchange);
  void serve_host(const WebRoute& route, const Exchange& exchange);
  void serve_history(const WebRoute& route, const Exchange& exchange);
  void serve_action(const WebRoute& route, const std::string& token, const Exchange& exchange);
  void serve_queue_action(const WebRoute& route, const Exchange& exchange);

  ApiHandler* const handler_;
  const std::string write_token_;
  RestCalls rest_;
};

}  // namespace muster::launcherd::web
