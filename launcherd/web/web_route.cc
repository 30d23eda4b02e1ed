#include "launcherd/web/web_route.h"

#include <algorithm>
#include <array>
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
constexpr std::size_t kMostRanks = 10'000;
constexpr long kMostOfAPart = 10'000;  // ranks, the limit of GetJobRequest.max_ranks
constexpr long kLatest = 1L << 32;
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

// The names are those of v1.JobOrder and v1.JobState, in the order of their numbers.
constexpr std::array<std::string_view, 6> kOrders{"newest", "state", "name", "size", "priority", "time"};
constexpr std::array<std::string_view, 9> kStates{"unspecified", "queued", "starting", "running", "stopping",
                                                  "succeeded",   "failed", "killed",   "lost"};

template <std::size_t kCount>
base::Result<int> place_of(const std::array<std::string_view, kCount>& names, std::string_view name,
                           std::string_view argument) {
  const auto found = std::ranges::find(names, name);
  if (found != names.end()) return static_cast<int>(found - names.begin());
  return base::invalid_argument("{}: must be one of: {}", argument, fmt::join(names, ", "));
}

base::Result<WebRoute> jobs_route(const WebTarget& target) {
  WebRoute route{.page = Page::kJobs,
                 .all = query_of(target, "all") == "1",
                 .page_token = query_of(target, "page_token").value_or("")};
  MUSTER_ASSIGN_OR_RETURN(const long size, number_of(target, "page_size", 0, kMostJobsOfAPage));
  route.page_size = static_cast<int>(size);
  route.filter = query_of(target, "filter").value_or("");
  route.reverse = query_of(target, "reverse") == "1";
  MUSTER_ASSIGN_OR_RETURN(route.order, place_of(kOrders, query_of(target, "order").value_or("newest"), "order"));
  const std::string states = query_of(target, "states").value_or("");
  for (const std::string_view name : base::split(states, ',')) {
    if (name.empty()) continue;
    MUSTER_ASSIGN_OR_RETURN(const int state, place_of(kStates, name, "states"));
    route.states.push_back(state);
  }
  return route;
}

// Reads "0-3,7".
base::Result<std::vector<int>> ranks_of(const WebTarget& target) {
  const auto invalid = base::invalid_argument(
      "rank: must be numbers or ranges such as 0-3,7, at most {} ranks of at most {}", kMostRanks, kMaxRank);
  std::vector<int> ranks;
  const auto text = query_of(target, "rank");
  if (!text) return ranks;
  for (const std::string_view part : base::split(*text, ',')) {
    const std::size_t dash = std::min(part.find('-'), part.size());
    const auto first = base::parse_decimal(part.substr(0, dash), kMaxRank);
    const auto last = dash == part.size() ? first : base::parse_decimal(part.substr(dash + 1), kMaxRank);
    if (!first || !last || *last < *first) return invalid;
    if (static_cast<std::size_t>(*last - *first) >= kMostRanks - ranks.size()) return invalid;
    for (long rank = *first; rank <= *last; ++rank) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
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
  MUSTER_ASSIGN_OR_RETURN(route.ranks, ranks_of(target));
  const auto seen = base::parse_decimal(request.last_event_id, std::numeric_limits<long>::max());
  route.from = static_cast<std::uint64_t>(seen.value_or(0));
  return route;
}

base::Result<WebRoute> download_route(const WebTarget& target) {
  WebRoute route{.page = Page::kDownload, .job = target.path[2]};
  MUSTER_ASSIGN_OR_RETURN(route.ranks, ranks_of(target));
  const std::string stream = query_of(target, "stream").value_or("");
  if (stream != "" && stream != "stdout" && stream != "stderr") {
    return base::invalid_argument("stream: must be stdout or stderr");
  }
  if (!stream.empty()) route.stream = stream == "stdout" ? WebRoute::Stream::kOut : WebRoute::Stream::kErr;
  return route;
}

base::Result<WebRoute> stacks_route(const WebTarget& target) {
  WebRoute route{.page = Page::kStacks, .job = target.path[2], .native = query_of(target, "native") == "1"};
  MUSTER_ASSIGN_OR_RETURN(route.ranks, ranks_of(target));
  return route;
}

// Without max_ranks the answer has as many ranks as GetJob allows; with max_ranks=0 it has none.
base::Result<WebRoute> job_route(const WebTarget& target) {
  WebRoute route{.page = Page::kJob, .job = target.path[2]};
  MUSTER_ASSIGN_OR_RETURN(const long first, number_of(target, "first_rank", 0, kMaxRank));
  MUSTER_ASSIGN_OR_RETURN(const long most, number_of(target, "max_ranks", kMostOfAPart, kMostOfAPart));
  route.first_rank = static_cast<int>(first);
  route.max_ranks = most == 0 ? -1 : static_cast<int>(most);
  return route;
}

base::Result<WebRoute> history_route(const WebTarget& target) {
  WebRoute route{.page = Page::kHistory,
                 .job = query_of(target, "job").value_or(""),
                 .host = query_of(target, "host").value_or("")};
  if (route.job.empty() == route.host.empty()) return base::invalid_argument("give one of: job, host");
  MUSTER_ASSIGN_OR_RETURN(route.since, number_of(target, "since", 0, kLatest));
  return route;
}

base::Result<WebRoute> api_route(const WebTarget& target, const HttpRequest& request) {
  const std::vector<std::string>& path = target.path;
  if (path.size() == 2 && path[1] == "launcher") return WebRoute{.page = Page::kLauncher};
  if (path.size() == 2 && path[1] == "history") return history_route(target);
  if (path.size() == 2 && path[1] == "hosts") {
    return WebRoute{.page = Page::kHosts, .brief = query_of(target, "brief") == "1"};
  }
  if (path.size() == 3 && path[1] == "hosts") return WebRoute{.page = Page::kHost, .host = path[2]};
  if (path.size() >= 2 && path[1] == "jobs") {
    if (path.size() == 2) return jobs_route(target);
    if (path.size() == 3) return job_route(target);
    if (path.size() == 4 && path[3] == "events") return events_route(target, request);
    if (path.size() == 4 && path[3] == "logs") return logs_route(target, request);
    if (path.size() == 4 && path[3] == "log.txt") return download_route(target);
    if (path.size() == 4 && path[3] == "stacks") return stacks_route(target);
    if (path.size() == 4 && path[3] == "hang") return WebRoute{.page = Page::kHang, .job = path[2]};
    if (path.size() == 4 && path[3] == "spec") return WebRoute{.page = Page::kSpec, .job = path[2]};
  }
  return base::Status(base::Code::kNotFound, "page not found");
}

base::Result<WebRoute> signal_route(const WebTarget& target) {
  constexpr long kMostSignal = 64;
  WebRoute route{.page = Page::kSignal, .job = target.path[2]};
  MUSTER_ASSIGN_OR_RETURN(const long signal, number_of(target, "signal", 0, kMostSignal));
  if (signal == 0) return base::invalid_argument("signal: must be a whole number from 1 to {}", kMostSignal);
  route.signal = static_cast<int>(signal);
  return route;
}

base::Result<WebRoute> action_route(const WebTarget& target) {
  const std::vector<std::string>& path = target.path;
  if (path.size() == 4 && path[0] == "api" && path[1] == "jobs") {
    if (path[3] == "kill") {
      return WebRoute{.page = Page::kKill, .job = path[2], .at_once = query_of(target, "at_once") == "1"};
    }
    if (path[3] == "signal") return signal_route(target);
    if (path[3] == "hold") return WebRoute{.page = Page::kHold, .job = path[2]};
    if (path[3] == "release") return WebRoute{.page = Page::kRelease, .job = path[2]};
    if (path[3] == "rerun") {
      return WebRoute{.page = Page::kRerun, .job = path[2], .request_id = query_of(target, "request_id").value_or("")};
    }
  }
  if (path.size() == 4 && path[0] == "api" && path[1] == "hosts") {
    if (path[3] == "drain") {
      return WebRoute{.page = Page::kDrain, .host = path[2], .reason = query_of(target, "reason").value_or("")};
    }
    if (path[3] == "resume") return WebRoute{.page = Page::kResume, .host = path[2]};
  }
  return base::Status(base::Code::kNotFound, "page not found");
}

// A page from elsewhere cannot set X-Muster-Token without our consent, and its Origin is another one.
std::variant<WebRoute, WebRefusal, base::Status> find_action(const HttpRequest& request) {
  if (!request.origin.empty() && request.origin != "http://" + request.host) {
    return WebRefusal{403, "only launcherd's own page may ask for actions\n"};
  }
  const auto target = parse_web_target(request.target);
  if (!target) return WebRefusal{400, "invalid path\n"};
  auto route = action_route(*target);
  if (!route.ok()) return route.status();
  return *std::move(route);
}

}  // namespace

bool is_action(WebRoute::Page page) {
  constexpr std::array kActions = {Page::kKill,  Page::kSignal, Page::kHold,  Page::kRelease,
                                   Page::kRerun, Page::kDrain,  Page::kResume};
  return std::ranges::find(kActions, page) != kActions.end();
}

std::variant<WebRoute, WebRefusal, base::Status> find_route(const HttpRequest& request) {
  if (!is_local_host_header(request.host)) {
    return WebRefusal{421,
                      "launcherd serves this page to its own machine only: use http://localhost or http://127.0.0.1\n"};
  }
  if (request.method == "POST") return find_action(request);
  if (request.method != "GET") return WebRefusal{405, "only GET is allowed, and POST for actions\n"};
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
