#include "launcherd/web/web_pages.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/strings.h"
#include "launcherd/web/metrics.h"
#include "launcherd/web/page_files.h"
#include "proto/message_json.h"

namespace muster::launcherd {
namespace {

using Exchange = std::shared_ptr<HttpExchange>;

constexpr std::string_view kJson = "application/json";
constexpr std::string_view kText = "text/plain; charset=utf-8";
constexpr long kMostLines = 100'000;
constexpr int kMaxRank = 1'000'000;

int http_status(base::Code code) {
  switch (code) {
    case base::Code::kInvalidArgument:
    case base::Code::kOutOfRange:
      return 400;
    case base::Code::kNotFound:
      return 404;
    case base::Code::kFailedPrecondition:
      return 409;
    case base::Code::kResourceExhausted:
      return 429;
    case base::Code::kUnimplemented:
      return 501;
    case base::Code::kUnavailable:
      return 503;
    default:
      return 500;
  }
}

// As a string in JSON.
std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : base::valid_utf8(text)) {
    if (c == '"' || c == '\\') result += '\\';
    if (static_cast<unsigned char>(c) < ' ') {
      result += fmt::format("\\u{:04x}", static_cast<int>(c));
    } else {
      result += c;
    }
  }
  return result + "\"";
}

std::string error_json(const base::Status& status) {
  return fmt::format("{{\"code\":{},\"message\":{}}}", quoted(base::code_name(status.code())),
                     quoted(status.message()));
}

void refuse(const Exchange& exchange, const base::Status& status) {
  exchange->answer(http_status(status.code()), kJson, error_json(status) + "\n");
}

template <typename Answer>
Reply<Answer> json_reply(const Exchange& exchange) {
  return [exchange](base::Result<Answer> answer) {
    if (!answer.ok()) return refuse(exchange, answer.status());
    exchange->answer(200, kJson, proto::message_line(*answer));
  };
}

// A message as it stands in an event: without its newline.
std::string event_data(const google::protobuf::Message& message) {
  std::string line = proto::message_line(message);
  while (!line.empty() && line.back() == '\n') line.pop_back();
  return line;
}

// The replies of a call that streams, as events of this name; `id_of` is where a browser that comes back goes on.
template <typename Answer>
Replies<Answer> event_replies(const Exchange& exchange, std::string name,
                              std::function<std::uint64_t(const Answer&)> id_of) {
  return {.send =
              [exchange, name = std::move(name), id_of = std::move(id_of)](const Answer& answer) {
                exchange->send_event(std::to_string(id_of(answer)), name, event_data(answer));
              },
          .done =
              [exchange](const base::Status& status) {
                // Told as an event: a browser would otherwise come back for ever.
                exchange->send_event("", "end", status.ok() ? "{}" : error_json(status));
                exchange->end();
              },
          .when_taken = [exchange](base::Loop::Task task) { exchange->when_taken(std::move(task)); }};
}

std::optional<std::string> query_of(const WebTarget& target, const std::string& name) {
  const auto found = target.query.find(name);
  return found == target.query.end() ? std::nullopt : std::optional(found->second);
}

// A number of the query; `standard` where it is not there. The error names it.
base::Result<long> number_of(const WebTarget& target, const std::string& name, long standard, long max) {
  const auto text = query_of(target, name);
  if (!text) return standard;
  const auto number = base::parse_decimal(*text, max);
  if (number) return *number;
  return base::error(base::Code::kInvalidArgument, "{}: a whole number up to {}, please", name, max);
}

}  // namespace

void WebPages::serve(const HttpRequest& request, const Exchange& exchange) {
  if (!is_local_host_header(request.host)) {
    return exchange->answer(421, kText, "this is served to this machine only: http://localhost or http://127.0.0.1\n");
  }
  if (request.method != "GET") return exchange->answer(405, kText, "GET only: nothing can be changed here\n");
  const auto target = parse_web_target(request.target);
  if (!target) return exchange->answer(400, kText, "this is no path of ours\n");
  if (serve_file(*target, exchange)) return;
  const std::vector<std::string>& path = target->path;
  if (path == std::vector<std::string>{"healthz"}) return exchange->answer(200, kText, "ok\n");
  if (path == std::vector<std::string>{"metrics"}) return serve_metrics(exchange);
  if (path == std::vector<std::string>{"api", "hosts"}) {
    return handler_->list_hosts({}, json_reply<v1::ListHostsResponse>(exchange));
  }
  const bool is_jobs = path.size() >= 2 && path[0] == "api" && path[1] == "jobs";
  if (is_jobs && path.size() == 2) return serve_jobs(*target, exchange);
  if (is_jobs && path.size() <= 4) return serve_job(*target, request, exchange);
  refuse(exchange, {base::Code::kNotFound, "there is no such page"});
}

bool WebPages::serve_file(const WebTarget& target, const Exchange& exchange) {
  if (target.path.size() > 1) return false;
  const std::string name = target.path.empty() ? "page.html" : target.path.front();
  for (const PageFile& file : page_files()) {
    if (file.name != name) continue;
    exchange->answer(200, file.content_type, std::string(file.content));
    return true;
  }
  return false;
}

void WebPages::serve_metrics(const Exchange& exchange) {
  handler_->get_capabilities({}, [handler = handler_, exchange](const base::Result<v1::Capabilities>& launcher) {
    if (!launcher.ok()) return refuse(exchange, launcher.status());
    handler->list_hosts(
        {}, [handler, exchange, launcher = *launcher](const base::Result<v1::ListHostsResponse>& hosts) {
          if (!hosts.ok()) return refuse(exchange, hosts.status());
          v1::ListJobsRequest request;
          request.set_page_size(1000);
          handler->list_jobs(
              request, [handler, exchange, launcher, hosts = *hosts](const base::Result<v1::ListJobsResponse>& jobs) {
                if (!jobs.ok()) return refuse(exchange, jobs.status());
                exchange->answer(200, "text/plain; version=0.0.4; charset=utf-8",
                                 format_metrics(launcher, hosts, *jobs, handler->counters()));
              });
        });
  });
}

void WebPages::serve_jobs(const WebTarget& target, const Exchange& exchange) {
  v1::ListJobsRequest request;
  request.set_all(query_of(target, "all") == "1");
  request.set_page_token(query_of(target, "page_token").value_or(""));
  handler_->list_jobs(request, json_reply<v1::ListJobsResponse>(exchange));
}

void WebPages::serve_job(const WebTarget& target, const HttpRequest& request, const Exchange& exchange) {
  if (target.path.size() == 4 && target.path[3] == "events") return serve_events(target, request, exchange);
  if (target.path.size() == 4 && target.path[3] == "logs") return serve_logs(target, request, exchange);
  if (target.path.size() == 4) return refuse(exchange, {base::Code::kNotFound, "there is no such page"});
  v1::GetJobRequest wanted;
  wanted.set_job(target.path[2]);
  handler_->get_job(wanted, json_reply<v1::Job>(exchange));
}

void WebPages::serve_events(const WebTarget& target, const HttpRequest& request, const Exchange& exchange) {
  constexpr long kMost = std::numeric_limits<long>::max() - 1;
  const auto from = number_of(target, "from", 0, kMost);
  if (!from.ok()) return refuse(exchange, from.status());
  v1::WatchRequest wanted;
  wanted.set_job(target.path[2]);
  wanted.set_from_sequence(static_cast<std::uint64_t>(*from));
  const auto seen = base::parse_decimal(request.last_event_id, kMost);
  if (seen) wanted.set_from_sequence(static_cast<std::uint64_t>(*seen) + 1);
  exchange->begin_events();
  exchange->on_gone(handler_->watch(
      wanted, event_replies<v1::Event>(exchange, "event", [](const v1::Event& event) { return event.sequence(); })));
}

void WebPages::serve_logs(const WebTarget& target, const HttpRequest& request, const Exchange& exchange) {
  const auto tail = number_of(target, "tail", 0, kMostLines);
  if (!tail.ok()) return refuse(exchange, tail.status());
  v1::LogsRequest wanted;
  wanted.set_job(target.path[2]);
  wanted.set_follow(true);
  wanted.set_tail_lines(*tail);
  if (query_of(target, "rank")) {
    const auto rank = number_of(target, "rank", 0, kMaxRank);
    if (!rank.ok()) return refuse(exchange, rank.status());
    wanted.add_ranks(static_cast<int>(*rank));
  }
  const auto seen = base::parse_decimal(request.last_event_id, std::numeric_limits<long>::max());
  if (seen) wanted.set_from_position(static_cast<std::uint64_t>(*seen));
  exchange->begin_events();
  exchange->on_gone(handler_->logs(wanted, event_replies<v1::LogChunk>(exchange, "log", [](const v1::LogChunk& chunk) {
                                     return chunk.next_position();
                                   })));
}

}  // namespace muster::launcherd
