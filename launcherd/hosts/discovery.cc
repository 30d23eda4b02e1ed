#include "launcherd/hosts/discovery.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/strings.h"
#include "launcherd/hosts/ask_program.h"
#include "launcherd/hosts/hostfile.h"

namespace muster::launcherd::inline hosts {
namespace {

// Returns each host once. If a host appears again, its last line counts, as for horovodrun.
std::vector<model::HostSpec> last_of_each(std::vector<model::HostSpec> hosts) {
  std::vector<model::HostSpec> result;
  for (model::HostSpec& host : hosts) {
    const auto found = std::ranges::find(result, host.name, &model::HostSpec::name);
    if (found == result.end()) {
      result.push_back(std::move(host));
    } else {
      *found = std::move(host);
    }
  }
  return result;
}

bool names_no_host(std::string_view output) {
  return std::ranges::all_of(base::split(output, '\n'), [](std::string_view line) {
    const std::string_view text = base::trim(line);
    return text.empty() || text.starts_with('#');
  });
}

}  // namespace

base::Result<std::vector<model::HostSpec>> discover_hosts(const std::string& script, const Waiter& waiter) {
  const std::string name = "host discovery script " + quote_for_message(script);
  MUSTER_ASSIGN_OR_RETURN(const ProgramResult result, ask_program(name, {"/bin/sh", "-c", script}, waiter));
  auto hosts = model::parse_hostfile(result.output, "output of " + name);
  if (!hosts.ok()) {
    const base::Code code = names_no_host(result.output) ? base::Code::kNotFound : hosts.status().code();
    return base::error(code, "{}{}", hosts.status().message(), quoted_errors(result));
  }
  return last_of_each(*std::move(hosts));
}

}  // namespace muster::launcherd::hosts
