// Parses the target of a request into the parts of its path and its query. Decodes both and limits their size. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::launcherd::inline web {

struct WebTarget {
  std::vector<std::string> path;             // "/api/jobs/k7" is {api, jobs, k7}; empty for "/"
  std::map<std::string, std::string> query;  // the last value of a repeated name
};

// nullopt if `target` is invalid: no leading '/', bad escapes, control characters or too many parts.
std::optional<WebTarget> parse_web_target(std::string_view target);

// True if a Host header names this machine by a loopback name. After DNS rebinding, the name of a foreign page means
// this machine. The header then holds that foreign name.
bool is_local_host_header(std::string_view host);

}  // namespace muster::launcherd::web
