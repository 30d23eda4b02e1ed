#include "agent/process/free_memory.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "agent/proc/cgroup.h"
#include "base/file.h"
#include "base/strings.h"

namespace muster::agent::inline process {
namespace {

std::optional<std::uint64_t> number_in(const std::string& path) {
  const auto content = base::read_file(path);
  if (!content.ok()) return std::nullopt;
  const auto value = base::parse_decimal(base::trim(*content), std::numeric_limits<long>::max());
  return value ? std::optional(static_cast<std::uint64_t>(*value)) : std::nullopt;
}

std::optional<std::uint64_t> free_of_host(const std::string& meminfo) {
  constexpr std::string_view kKey = "MemAvailable:";
  const auto content = base::read_file(meminfo);
  if (!content.ok()) return std::nullopt;
  for (const std::string_view line : base::split(*content, '\n')) {
    if (!line.starts_with(kKey)) continue;
    std::string_view value = base::trim(line.substr(kKey.size()));
    value = value.substr(0, value.find(' '));
    const auto kib = base::parse_decimal(value, std::numeric_limits<long>::max());
    return kib ? std::optional(static_cast<std::uint64_t>(*kib)) : std::nullopt;
  }
  return std::nullopt;
}

// Returns nullopt if the cgroup has no limit: version 2 has the word "max" then, and version 1 a huge number.
std::optional<std::uint64_t> free_of_cgroup(const std::string& memory_events) {
  const std::string folder = memory_events.substr(0, memory_events.rfind('/') + 1);
  if (folder.empty()) return std::nullopt;
  const bool is_v1 = memory_events.ends_with("/memory.oom_control");
  const auto limit = number_in(folder + (is_v1 ? "memory.limit_in_bytes" : "memory.max"));
  const auto used = number_in(folder + (is_v1 ? "memory.usage_in_bytes" : "memory.current"));
  if (!limit || !used) return std::nullopt;
  const std::uint64_t cached =
      keyed_value(folder + "memory.stat", is_v1 ? "total_inactive_file" : "inactive_file").value_or(0);
  const std::uint64_t kept = *used - std::min(*used, cached);
  return *limit > kept ? (*limit - kept) / 1024 : 0;
}

}  // namespace

std::optional<std::uint64_t> free_memory_kib(const MemorySources& sources) {
  const auto host = free_of_host(sources.meminfo);
  const auto cgroup = free_of_cgroup(sources.memory_events);
  if (!host || !cgroup) return host ? host : cgroup;
  return std::min(*host, *cgroup);
}

}  // namespace muster::agent::process
