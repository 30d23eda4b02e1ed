// Which of its pages a request asks launcherd for, with the arguments checked. Pure: what a stranger could send is
// judged here, before anything is asked for it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/status.h"
#include "launcherd/web/http_exchange.h"
#include "launcherd/web/page_files.h"

namespace muster::launcherd::inline web {

struct WebRoute {
  enum class Page { kFile, kHealth, kMetrics, kHosts, kJobs, kJob, kEvents, kLogs };
  Page page = Page::kHealth;
  const PageFile* file = nullptr;  // of kFile
  std::string job{};               // of kJob, kEvents, kLogs: as the request has it, not empty
  bool all = false;                // of kJobs
  std::string page_token{};        // of kJobs
  int page_size = 0;               // of kJobs; 0: as ListJobsRequest has it
  std::uint64_t from = 0;          // of kEvents the first sequence number, of kLogs a position; 0: from the beginning
  std::int64_t tail_lines = 0;     // of kLogs; 0: all
  std::optional<int> rank{};       // of kLogs
};

// A request that is none for us.
struct WebRefusal {
  int http_status = 400;
  std::string_view text;
};

// The Status: there is no such page, or an argument that it names makes no sense.
std::variant<WebRoute, WebRefusal, base::Status> find_route(const HttpRequest& request);

}  // namespace muster::launcherd::web
