#include "launcherd/web/web_route.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "launcherd/web/web_request.h"

namespace muster::launcherd::inline web {
namespace {

using Page = WebRoute::Page;

constexpr long kMostLines = 100'000;
constexpr long kMostJobsOfAPage = 1000;  // the limit of ListJobsRequest.page_size
constexpr long kMaxRank = 1'000'000;
constexpr long kMostEvents = std::numeric_limits<long>::max() - 1;

std::optional<std::string> query_of(const WebTarget& target, const std::string& name) {
  const auto found = target.query.find(name);
  return found == target.query.end() ? std::nullopt : std::optional(found->second);
}

// Returns a number of the query, or `standard` if the query lacks it. The error names the argument.
base::Result<long> number_of(const WebTarget& target, const std::string& name, long standard, long max) {
  const auto text = query_of(target, name);
  if (!text) return standard;
  const auto number = base::parse_decimal(*text, max);
  if (number) return *number;
  return base::invalid_argument("{}: must be a whole number up to {}", name, max);
}

const PageFile* find_file(const std::vector<std::string>& path) {
  if (path.size() > 1) return nullptr;
  const std::string name = path.empty() ? "page.html" : path.front();
  for (const PageFile& file : page_files()) {
    if (file.name == name) return &file;
  }
  return nullptr;
}

base::Result<WebRoute> jobs_route(const WebTarget& target) {
  WebRoute route{.page = Page::kJobs,
                 .all = query_of(target, "all") == "1",
                 .page_token = query_of(target, "page_token").value_or("")};
  MUSTER_ASSIGN_OR_RETURN(const long size, number_of(target, "page_size", 0, kMostJobsOfAPage));
  route.page_size = static_cast<int>(size);
  return route;
}

// Last-Event-ID says which event a reconnecting browser got last.
base::Result<WebRoute> events_route(const WebTarget& target, const HttpRequest& request) {
  WebRoute route{.page = Page::kEvents, .job = target.path[2]};
  MUSTER_ASSIGN_OR_RETURN(const long from, number_of(target, "from", 0, kMostEvents));
  const auto seen = base::parse_decimal(request.last_event_id, kMostEvents);
  route.from = static_cast<std::uint64_t>(seen ? *seen + 1 : from);
  return route;
}

base::Result<WebRoute> logs_route(const WebTarget& target, const HttpRequest& request) {
  WebRoute route{.page = Page::kLogs, .job = target.path[2]};
  MUSTER_ASSIGN_OR_RETURN(route.tail_lines, number_of(target, "tail", 0, kMostLines));
  if (query_of(target, "rank")) {
    MUSTER_ASSIGN_OR_RETURN(const long rank, number_of(target, "rank", 0, kMaxRank));
    route.rank = static_cast<int>(rank);
  }
  const auto seen = base::parse_decimal(request.last_event_id, std::numeric_limits<long>::max());
  route.from = static_cast<std::uint64_t>(seen.value_or(0));
  return route;
}

base::Result<WebRoute> api_route(const WebTarget& target, const HttpRequest& request) {
  const std::vector<std::string>& path = target.path;
  if (path.size() == 2 && path[1] == "hosts") return WebRoute{.page = Page::kHosts};
  if (path.size() >= 2 && path[1] == "jobs") {
    if (path.size() == 2) return jobs_route(target);
    if (path.size() == 3) return WebRoute{.page = Page::kJob, .job = path[2]};
    if (path.size() == 4 && path[3] == "events") return events_route(target, request);
    if (path.size() == 4 && path[3] == "logs") return logs_route(target, request);
  }
  return base::Status(base::Code::kNotFound, "page not found");
}

}  // namespace

std::variant<WebRoute, WebRefusal, base::Status> find_route(const HttpRequest& request) {
  if (!is_local_host_header(request.host)) {
    return WebRefusal{421,
                      "launcherd serves this page to its own machine only: use http://localhost or http://127.0.0.1\n"};
  }
  if (request.method != "GET") return WebRefusal{405, "only GET is allowed: these pages change nothing\n"};
  const auto target = parse_web_target(request.target);
  if (!target) return WebRefusal{400, "invalid path\n"};
  if (const PageFile* const file = find_file(target->path)) return WebRoute{.page = Page::kFile, .file = file};
  const std::vector<std::string>& path = target->path;
  if (path == std::vector<std::string>{"healthz"}) return WebRoute{.page = Page::kHealth};
  if (path == std::vector<std::string>{"metrics"}) return WebRoute{.page = Page::kMetrics};
  if (path.empty() || path[0] != "api") return base::Status(base::Code::kNotFound, "page not found");
  auto route = api_route(*target, request);
  if (!route.ok()) return route.status();
  return *std::move(route);
}

}  // namespace muster::launcherd::web
