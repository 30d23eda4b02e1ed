#include "launcherd/service/launcher_address.h"

#include <algorithm>

#include "base/strings.h"

namespace muster::launcherd::inline service {
namespace {

constexpr std::string_view kUnix = "unix:";
constexpr long kHighestPort = 65'535;

bool is_host(std::string_view text) {
  if (text.size() > 2 && text.front() == '[' && text.back() == ']') {
    return std::ranges::all_of(text.substr(1, text.size() - 2),
                               [](unsigned char c) { return std::isxdigit(c) != 0 || c == ':' || c == '.'; });
  }
  const auto is_letter = [](unsigned char c) { return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_'; };
  return !text.empty() && text.front() != '-' && std::ranges::all_of(text, is_letter);
}

}  // namespace

LauncherAddress foreground_address(const std::string& path) {
  return {.path = path, .endpoint = {}, .tls = {}, .is_foreground_job = true};
}

base::Result<LauncherAddress> parse_launcher_address(std::string_view text) {
  LauncherAddress address;
  if (text.starts_with(kUnix) && text.substr(kUnix.size()).starts_with('/')) {
    address.path = text.substr(kUnix.size());
    return address;
  }
  const std::size_t colon = text.rfind(':');
  if (colon != std::string_view::npos && !text.starts_with(kUnix)) {
    const auto port = base::parse_decimal(text.substr(colon + 1), kHighestPort);
    if (port && *port > 0 && is_host(text.substr(0, colon))) {
      address.endpoint = text;
      return address;
    }
  }
  return base::invalid_argument("'{}' is not a launcher address; write unix:/path, host:port or [v6]:port",
                                base::printable(text));
}

std::string format_launcher_address(const LauncherAddress& address) {
  return address.path.empty() ? address.endpoint : fmt::format("{}{}", kUnix, address.path);
}

}  // namespace muster::launcherd::service
