// What schedulers put into the environment: reading ends, and what is accepted are host names, a bounded number of
// them. Input: the node list, a newline, the tasks; the first line also as node numbers, as
// LSF's list and as a time.
#include <cstdint>
#include <string_view>

#include "launcherd/hosts/allocation.h"
#include "launcherd/hosts/time_limit.h"

namespace {

void check(const muster::base::Result<std::vector<muster::model::HostSpec>>& hosts) {
  if (!hosts.ok()) {
    MUSTER_CHECK(hosts.status().message().find('\n') == std::string::npos);
    return;
  }
  MUSTER_CHECK(!hosts->empty() && hosts->size() <= static_cast<std::size_t>(muster::model::kMaxHosts));
  for (const muster::model::HostSpec& host : *hosts) MUSTER_CHECK(!host.name.empty() && host.name.front() != '-');
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto end = text.find('\n');
  const std::string_view list = text.substr(0, end);
  check(muster::launcherd::slurm_hosts(list, end == std::string_view::npos ? "" : text.substr(end + 1)));
  check(muster::launcherd::cobalt_hosts(list));
  check(muster::launcherd::lsf_hosts(list));
  const auto time = muster::launcherd::parse_clock_time(list);
  MUSTER_CHECK(!time || time->count() >= 0);
  return 0;
}
