// Finds the page for a request, and checks the request's arguments. Pure. It rejects hostile input before launcherd
// works for it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/status.h"
#include "launcherd/web/http_exchange.h"
#include "launcherd/web/page_files.h"

namespace muster::launcherd::inline web {

struct WebRoute {
  enum class Page {
    kFile,
    kHealth,
    kMetrics,
    kLauncher,
    kHosts,
    kHost,
    kJobs,
    kJob,
    kSpec,
    kEvents,
    kLogs,
    kDownload,
    kStacks,
    kHang,
    kHistory,
    // These change something. They need POST and the token of --http-write.
    kKill,
    kSignal,
    kHold,
    kRelease,
    kRerun,
    kDrain,
    kResume
  };
  enum class Stream { kBoth, kOut, kErr };
  Page page = Page::kHealth;
  const PageFile* file = nullptr;  // for kFile
  std::string job{};               // for the pages of a job: as in the request, not empty; for kHistory it may be empty
  std::string host{};              // for kHost, kDrain, kResume; for kHistory it may be empty
  bool all = false;                // for kJobs
  std::string page_token{};        // for kJobs
  int page_size = 0;               // for kJobs; 0 means the default of ListJobsRequest
  std::string filter{};            // for kJobs
  std::vector<int> states{};       // for kJobs, numbers of v1.JobState; empty means all
  int order = 0;                   // for kJobs, a number of v1.JobOrder
  bool reverse = false;            // for kJobs
  int signal = 0;                  // for kSignal
  bool at_once = false;            // for kKill
  std::string reason{};            // for kDrain
  std::string request_id{};        // for kRerun; empty means none
  bool native = false;             // for kStacks
  int first_rank = 0;              // for kJob
  int max_ranks = 0;               // for kJob: as GetJobRequest.max_ranks
  bool brief = false;              // for kHosts: leaves out what the map of hosts does not show
  // The first sequence number for kEvents, a position for kLogs. 0 means the beginning.
  std::uint64_t from = 0;
  std::int64_t since = 0;         // for kHistory, seconds since 1970
  std::int64_t tail_lines = 0;    // for kLogs; 0 means all lines
  std::vector<int> ranks{};       // for kLogs, kDownload, kStacks; empty means all
  Stream stream = Stream::kBoth;  // for kDownload
};

// The reply to a request that launcherd does not serve.
struct WebRefusal {
  int http_status = 400;
  std::string_view text;
};

// True for pages that change something.
bool is_action(WebRoute::Page page);

// The Status says that the page does not exist, or that an argument is invalid.
std::variant<WebRoute, WebRefusal, base::Status> find_route(const HttpRequest& request);

}  // namespace muster::launcherd::web
