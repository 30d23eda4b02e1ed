// WebPages: one serve_ function for each page, and the conversion of replies to JSON and events.
// Read WebPages::serve first, then the serve_ functions, then event_replies.
#include "launcherd/web/web_pages.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/hmac.h"
#include "base/strings.h"
#include "launcherd/service/own_user.h"
#include "launcherd/web/http_error.h"
#include "launcherd/web/metrics_page.h"
#include "proto/message_json.h"

namespace muster::launcherd::inline web {
namespace {

using Exchange = std::shared_ptr<HttpExchange>;

constexpr std::string_view kJson = "application/json";
constexpr std::string_view kText = "text/plain; charset=utf-8";

template <typename Answer>
Reply<Answer> json_reply(const Exchange& exchange) {
  return [exchange](base::Result<Answer> answer) {
    if (!answer.ok()) return refuse(exchange, answer.status());
    exchange->answer(200, kJson, proto::message_line(*answer));
  };
}

// Returns a message as one line of an event's data.
std::string event_data(const google::protobuf::Message& message) {
  std::string line = proto::message_line(message);
  while (!line.empty() && line.back() == '\n') line.pop_back();
  return line;
}

// Sends the replies of a streaming call as events called `name`. `id_of` returns the position from which a browser
// continues after a reconnect.
template <typename Answer>
Replies<Answer> event_replies(const Exchange& exchange, std::string name,
                              std::function<std::uint64_t(const Answer&)> id_of) {
  return {.send =
              [exchange, name = std::move(name), id_of = std::move(id_of)](const Answer& answer) {
                exchange->send_event(std::to_string(id_of(answer)), name, event_data(answer));
              },
          .done =
              [exchange](const base::Status& status) {
                // Send the end as an event. Otherwise a browser would reconnect for ever.
                exchange->send_event("", "end", status.ok() ? "{}" : error_json(status));
                exchange->end();
              },
          .when_written = [exchange](base::Loop::Task task) { exchange->when_written(std::move(task)); }};
}

std::string file_name_of(const std::string& job) {
  std::string name = "job-";
  for (const char c : job) {
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) name += c;
  }
  return name + ".log";
}

// Leaves out what the map of hosts does not show, because a list of 4,000 hosts is long.
void make_brief(v1::LauncherHost& host) {
  for (v1::Gpu& gpu : *host.mutable_gpus()) {
    v1::Gpu kept;
    kept.set_memory_mib(gpu.memory_mib());
    gpu.Swap(&kept);
  }
  host.clear_kernel();
  host.clear_agent_build();
  host.clear_containment();
  host.clear_gpu_driver();
}

}  // namespace

std::optional<std::size_t> WebPages::body_limit(const HttpRequest& head) const {
  return is_rest_target(head.target) ? rest_.body_limit(head) : 0;
}

void WebPages::serve(const HttpRequest& request, const Exchange& exchange) {
  if (is_rest_target(request.target)) return rest_.serve(request, exchange);
  const auto found = find_route(request);
  if (const auto* const route = std::get_if<WebRoute>(&found)) {
    if (is_action(route->page)) return serve_action(*route, request.token, exchange);
    return serve_page(*route, exchange);
  }
  if (const auto* const status = std::get_if<base::Status>(&found)) return refuse(exchange, *status);
  const WebRefusal& refusal = std::get<WebRefusal>(found);
  exchange->answer(refusal.http_status, kText, std::string(refusal.text));
}

void WebPages::serve_page(const WebRoute& route, const Exchange& exchange) {
  switch (route.page) {
    case WebRoute::Page::kFile:
      return exchange->answer(200, route.file->content_type, std::string(route.file->content));
    case WebRoute::Page::kHealth:
      return exchange->answer(200, kText, "ok\n");
    case WebRoute::Page::kMetrics:
      return serve_metrics(handler_, exchange);
    case WebRoute::Page::kLauncher:
      return handler_->get_capabilities({}, json_reply<v1::Capabilities>(exchange));
    case WebRoute::Page::kHosts:
      return serve_hosts(route, exchange);
    case WebRoute::Page::kHost:
      return serve_host(route, exchange);
    case WebRoute::Page::kJobs:
      return serve_jobs(route, exchange);
    case WebRoute::Page::kJob:
      return serve_job(route, exchange);
    case WebRoute::Page::kSpec:
      return handler_->get_spec(route.job, json_reply<v1::JobSpec>(exchange));
    case WebRoute::Page::kEvents:
      return serve_events(route, exchange);
    case WebRoute::Page::kLogs:
      return serve_logs(route, exchange);
    case WebRoute::Page::kDownload:
      return serve_download(route, exchange);
    case WebRoute::Page::kStacks:
      return serve_stacks(route, exchange);
    case WebRoute::Page::kHang:
      return serve_hang(route, exchange);
    case WebRoute::Page::kHistory:
      return serve_history(route, exchange);
    case WebRoute::Page::kKill:
    case WebRoute::Page::kSignal:
    case WebRoute::Page::kHold:
    case WebRoute::Page::kRelease:
    case WebRoute::Page::kRerun:
    case WebRoute::Page::kDrain:
    case WebRoute::Page::kResume:
      return;  // serve_action() serves these
  }
}

void WebPages::serve_jobs(const WebRoute& route, const Exchange& exchange) {
  v1::ListJobsRequest request;
  request.set_all(route.all);
  request.set_page_token(route.page_token);
  request.set_page_size(route.page_size);
  request.set_filter(route.filter);
  for (const int state : route.states) request.add_states(static_cast<v1::JobState>(state));
  request.set_order(static_cast<v1::JobOrder>(route.order));
  request.set_reverse(route.reverse);
  handler_->list_jobs(request, json_reply<v1::ListJobsResponse>(exchange));
}

void WebPages::serve_job(const WebRoute& route, const Exchange& exchange) {
  v1::GetJobRequest wanted;
  wanted.set_job(route.job);
  wanted.set_first_rank(route.first_rank);
  wanted.set_max_ranks(route.max_ranks);
  handler_->get_job(wanted, json_reply<v1::Job>(exchange));
}

void WebPages::serve_events(const WebRoute& route, const Exchange& exchange) {
  v1::WatchRequest wanted;
  wanted.set_job(route.job);
  wanted.set_from_sequence(route.from);
  exchange->begin_events();
  exchange->on_gone(handler_->watch(
      wanted, event_replies<v1::Event>(exchange, "event", [](const v1::Event& event) { return event.sequence(); })));
}

void WebPages::serve_logs(const WebRoute& route, const Exchange& exchange) {
  v1::LogsRequest wanted;
  wanted.set_job(route.job);
  wanted.set_follow(true);
  wanted.set_tail_lines(route.tail_lines);
  wanted.set_from_position(route.from);
  for (const int rank : route.ranks) wanted.add_ranks(rank);
  exchange->begin_events();
  exchange->on_gone(handler_->logs(wanted, event_replies<v1::LogChunk>(exchange, "log", [](const v1::LogChunk& chunk) {
                                     return chunk.next_position();
                                   })));
}

// Sends the bytes as ranks wrote them, without labels. An error before the first byte is a reply of its own.
void WebPages::serve_download(const WebRoute& route, const Exchange& exchange) {
  v1::LogsRequest wanted;
  wanted.set_job(route.job);
  for (const int rank : route.ranks) wanted.add_ranks(rank);
  const auto stream = route.stream == WebRoute::Stream::kBoth  ? v1::OUTPUT_STREAM_KIND_UNSPECIFIED
                      : route.stream == WebRoute::Stream::kOut ? v1::OUTPUT_STREAM_KIND_STDOUT
                                                               : v1::OUTPUT_STREAM_KIND_STDERR;
  const auto has_begun = std::make_shared<bool>(false);
  const auto begin = [exchange, has_begun, job = route.job] {
    if (!std::exchange(*has_begun, true)) exchange->begin_download(kText, file_name_of(job));
  };
  Replies<v1::LogChunk> replies;
  replies.send = [exchange, begin, stream](v1::LogChunk chunk) {
    begin();
    const bool is_meant = stream == v1::OUTPUT_STREAM_KIND_UNSPECIFIED || chunk.stream() == stream;
    if (is_meant && !chunk.data().empty()) exchange->send_bytes(std::move(*chunk.mutable_data()));
  };
  replies.done = [exchange, begin, has_begun](const base::Status& status) {
    if (!status.ok() && !*has_begun) return refuse(exchange, status);
    begin();
    if (!status.ok()) exchange->send_bytes("\n[muster] the output ends here: " + std::string(status.message()) + "\n");
    exchange->end();
  };
  replies.when_written = [exchange](base::Loop::Task task) { exchange->when_written(std::move(task)); };
  exchange->on_gone(handler_->logs(wanted, std::move(replies)));
}

void WebPages::serve_stacks(const WebRoute& route, const Exchange& exchange) {
  v1::StacksRequest wanted;
  wanted.set_job(route.job);
  wanted.set_native(route.native);
  for (const int rank : route.ranks) wanted.add_ranks(rank);
  exchange->begin_events();
  exchange->on_gone(handler_->stacks(
      wanted, event_replies<v1::ProcessStack>(exchange, "stack", [](const v1::ProcessStack&) { return 0; })));
}

void WebPages::serve_hang(const WebRoute& route, const Exchange& exchange) {
  v1::ExplainHangRequest wanted;
  wanted.set_job(route.job);
  handler_->explain_hang(wanted, json_reply<v1::HangReport>(exchange));
}

void WebPages::serve_hosts(const WebRoute& route, const Exchange& exchange) {
  if (!route.brief) return handler_->list_hosts({}, json_reply<v1::ListHostsResponse>(exchange));
  handler_->list_hosts({}, [exchange](base::Result<v1::ListHostsResponse> hosts) {
    if (!hosts.ok()) return refuse(exchange, hosts.status());
    for (v1::LauncherHost& host : *hosts->mutable_hosts()) make_brief(host);
    exchange->answer(200, kJson, proto::message_line(*hosts));
  });
}

void WebPages::serve_host(const WebRoute& route, const Exchange& exchange) {
  handler_->list_hosts({}, [exchange, name = route.host](const base::Result<v1::ListHostsResponse>& hosts) {
    if (!hosts.ok()) return refuse(exchange, hosts.status());
    const auto found = std::ranges::find(hosts->hosts(), name, &v1::LauncherHost::name);
    if (found == hosts->hosts().end())
      return refuse(exchange, base::not_found("unknown host {}", base::printable(name)));
    exchange->answer(200, kJson, proto::message_line(*found));
  });
}

void WebPages::serve_history(const WebRoute& route, const Exchange& exchange) {
  v1::HistoryRequest request;
  request.set_job(route.job);
  if (!route.host.empty()) request.add_hosts(route.host);
  if (route.since > 0) request.mutable_since()->set_seconds(route.since);
  handler_->history(request, [exchange, is_of_job = !route.job.empty()](base::Result<v1::HistoryResponse> history) {
    if (!history.ok()) return refuse(exchange, history.status());
    if (is_of_job) history->clear_hosts();  // the job's own points are their averages and sums
    exchange->answer(200, kJson, proto::message_line(*history));
  });
}

void WebPages::serve_action(const WebRoute& route, const std::string& token, const Exchange& exchange) {
  if (write_token_.empty()) return exchange->answer(405, kText, "launcherd runs without --http-write: only GET\n");
  if (!base::is_equal_in_constant_time(token, write_token_)) {
    return exchange->answer(403, kText, "X-Muster-Token: not the token of this launcherd\n");
  }
  v1::KillRequest kill;
  v1::SignalRequest signal;
  v1::DrainHostRequest drain;
  v1::ResumeHostRequest resume;
  switch (route.page) {
    case WebRoute::Page::kKill:
      kill.set_job(route.job);
      kill.set_at_once(route.at_once);
      return handler_->kill(kill, json_reply<v1::KillResponse>(exchange));
    case WebRoute::Page::kSignal:
      signal.set_job(route.job);
      signal.set_signal(route.signal);
      return handler_->signal(signal, json_reply<v1::SignalResponse>(exchange));
    case WebRoute::Page::kDrain:
      drain.set_host(route.host);
      drain.set_reason(route.reason);
      return handler_->drain_host(drain, json_reply<v1::LauncherHost>(exchange));
    case WebRoute::Page::kResume:
      resume.set_host(route.host);
      return handler_->resume_host(resume, json_reply<v1::LauncherHost>(exchange));
    default:
      return serve_queue_action(route, exchange);
  }
}

// The page serves only launcherd's own user, so that user is the caller.
void WebPages::serve_queue_action(const WebRoute& route, const Exchange& exchange) {
  v1::HoldRequest hold;
  v1::ReleaseRequest release;
  v1::RerunRequest rerun;
  switch (route.page) {
    case WebRoute::Page::kHold:
      hold.set_job(route.job);
      return handler_->hold(hold, own_user(), json_reply<v1::HoldResponse>(exchange));
    case WebRoute::Page::kRelease:
      release.set_job(route.job);
      return handler_->release(release, json_reply<v1::ReleaseResponse>(exchange));
    default:
      rerun.set_job(route.job);
      rerun.set_request_id(route.request_id);
      return handler_->rerun(rerun, own_user(), json_reply<v1::SubmitResponse>(exchange));
  }
}

}  // namespace muster::launcherd::web
