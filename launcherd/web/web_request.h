// What a request asks for: its path in words and its query, decoded and bounded. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::launcherd::inline web {

struct WebTarget {
  std::vector<std::string> path;             // "/api/jobs/k7" is api, jobs, k7; "/" is none
  std::map<std::string, std::string> query;  // of repeated names the last one
};

// nullopt: no such target (no '/' at its begin, bad escapes, control characters, too many parts).
std::optional<WebTarget> parse_web_target(std::string_view target);

// Whether a Host header names this machine for itself: a page of elsewhere whose name was made to lead here has
// another one (DNS rebinding).
bool is_local_host_header(std::string_view host);

}  // namespace muster::launcherd::web
