// Finds the page for a request, and checks the request's arguments. Pure. It rejects hostile input before launcherd
// works for it.
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
  const PageFile* file = nullptr;  // for kFile
  std::string job{};               // for kJob, kEvents, kLogs: as in the request, not empty
  bool all = false;                // for kJobs
  std::string page_token{};        // for kJobs
  int page_size = 0;               // for kJobs; 0 means the default of ListJobsRequest
  // The first sequence number for kEvents, a position for kLogs. 0 means the beginning.
  std::uint64_t from = 0;
  std::int64_t tail_lines = 0;  // for kLogs; 0 means all lines
  std::optional<int> rank{};    // for kLogs; nullopt means all ranks
};

// The reply to a request that launcherd does not serve.
struct WebRefusal {
  int http_status = 400;
  std::string_view text;
};

// The Status says that the page does not exist, or that an argument is invalid.
std::variant<WebRoute, WebRefusal, base::Status> find_route(const HttpRequest& request);

}  // namespace muster::launcherd::web
