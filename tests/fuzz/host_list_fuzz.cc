// -H: whatever is accepted must be a name that no shell and no option parser can take for something else.
#include <cstdint>
#include <string_view>

#include "base/net.h"
#include "model/host_spec.h"

namespace {

bool is_safe(std::string_view name) {
  constexpr std::string_view kFirst = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  return !name.empty() && kFirst.find(name.front()) != std::string_view::npos &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") ==
             std::string_view::npos;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto hosts = muster::model::parse_host_list(text, "-H");
  if (!hosts.ok()) return 0;
  MUSTER_CHECK(hosts->size() <= static_cast<std::size_t>(muster::model::kMaxHosts));
  for (const muster::model::HostSpec& host : *hosts) {
    const bool is_address = host.name.find_first_of(":%") != std::string::npos;
    MUSTER_CHECK(is_address ? muster::base::IpAddress::parse(host.name).ok() : is_safe(host.name));
    MUSTER_CHECK(host.name.find_first_of(" '\"$`\\;&|<>\n") == std::string::npos);
    MUSTER_CHECK(host.user.empty() || is_safe(host.user));
    MUSTER_CHECK(!host.slots || (*host.slots >= 1 && *host.slots <= muster::model::kMaxSlotsPerHost));
    // What is shown can be typed again.
    const auto again = muster::model::parse_host_list(muster::model::display_name(host), "-H");
    MUSTER_CHECK(again.ok() && again->size() == 1 && again->front().name == host.name);
  }
  return 0;
}
