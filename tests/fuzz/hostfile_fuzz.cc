// Hostfiles: parsing ends, and what it accepts can be placed or is refused in words.
#include <cstdint>
#include <string_view>

#include "model/host_spec.h"
#include "model/placement.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view content(reinterpret_cast<const char*>(data), size);
  const auto hosts = muster::model::parse_hostfile(content, "hosts");
  if (!hosts.ok()) {
    MUSTER_CHECK(hosts.status().message().starts_with("hosts:"));
    MUSTER_CHECK(hosts.status().message().find('\n') == std::string::npos);
    return 0;
  }
  for (const muster::model::HostSpec& host : *hosts) {
    MUSTER_CHECK(host.port >= 0 && host.port <= 65535);
    MUSTER_CHECK(!host.slots || !host.max_slots || *host.slots <= *host.max_slots);
  }
  if (hosts->size() > 64) return 0;
  const auto placement = muster::model::place({.hosts = *hosts, .np = 7, .oversubscribe = true});
  if (!placement.ok()) {
    MUSTER_CHECK(!placement.status().message().empty());
    return 0;
  }
  MUSTER_CHECK(placement->size == 7 && placement->rank(6).rank == 6);
  return 0;
}
