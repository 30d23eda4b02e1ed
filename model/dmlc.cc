#include "model/dmlc.h"

#include <algorithm>

#include <fmt/format.h>

namespace muster::model {
namespace {

constexpr std::string_view kScheduler = "scheduler";
constexpr std::string_view kServer = "server";
constexpr std::string_view kWorker = "worker";

// Lists each host once, in order. The slots of a host's entries add up. They count only if all entries of the host give
// slots.
std::vector<HostSpec> merged(const std::vector<HostSpec>& hosts) {
  std::vector<HostSpec> result;
  for (const HostSpec& host : hosts) {
    const auto known = std::ranges::find(result, host.name, &HostSpec::name);
    if (known == result.end()) {
      result.push_back(host);
    } else if (known->slots && host.slots) {
      known->slots = std::min(*known->slots + *host.slots, kMaxSlotsPerHost);
    } else {
      known->slots.reset();
    }
  }
  return result;
}

int ranks_of(const std::vector<Role>& roles, std::string_view name) {
  const auto found = std::ranges::find(roles, name, &Role::name);
  return found == roles.end() ? 0 : found->np;
}

}  // namespace

std::vector<Role> dmlc_roles(const DmlcCounts& counts) {
  return {{.name = std::string(kScheduler), .np = 1, .is_service = true},
          {.name = std::string(kServer),
           .np = counts.servers,
           .environment = counts.server_environment,
           .is_service = true},
          {.name = std::string(kWorker), .np = counts.workers, .environment = counts.worker_environment}};
}

base::Result<std::vector<RankPlace>> dmlc_places(const DmlcCounts& counts, const std::vector<HostSpec>& hosts,
                                                 const std::vector<HostSpec>& server_hosts, bool oversubscribe) {
  const bool has_slots = std::ranges::any_of(hosts, [](const HostSpec& host) { return host.slots.has_value(); });
  const std::vector<HostSpec> all = has_slots ? merged(hosts) : hosts;
  const std::vector<HostSpec> for_servers = server_hosts.empty() ? all : server_hosts;
  std::vector<RankPlace> places = {{.rank = 0, .host = all.front().name}};
  const auto add = [&](const HostSpec& host) {
    places.push_back({.rank = static_cast<int>(places.size()), .host = host.name});
  };
  for (int i = 0; i < counts.servers; ++i) add(for_servers[static_cast<std::size_t>(i) % for_servers.size()]);
  std::vector<int> room;
  long slots = 0;
  for (const HostSpec& host : all) {
    room.push_back(host.slots.value_or(kMaxRanks));
    slots += room.back();
  }
  if (slots < counts.workers && !oversubscribe) {
    return base::resource_exhausted(
        "not enough slots: {} workers are requested, but the hosts together have {}; leave the slots out of "
        "the list, or add --oversubscribe",
        counts.workers, slots);
  }
  // Start with the host after the last server's host if workers and servers use the same hosts.
  std::size_t next = server_hosts.empty() ? static_cast<std::size_t>(counts.servers) % all.size() : 0;
  for (long dealt = 0; dealt < counts.workers; next = (next + 1) % all.size()) {
    if (room[next] == 0 && dealt < slots) continue;
    room[next] = std::max(room[next] - 1, 0);
    ++dealt;
    add(all[next]);
  }
  return places;
}

std::vector<std::pair<std::string, std::string>> dmlc_variables(const std::vector<Role>& roles,
                                                                const RankEnvInput& input, const std::string& address,
                                                                const base::Environment& user_set) {
  std::vector<std::pair<std::string, std::string>> variables = {
      {"DMLC_ROLE", input.role},
      {"DMLC_PS_ROOT_URI", input.master_addr},
      {"DMLC_PS_ROOT_PORT", fmt::format("{}", input.master_port)},
      {"DMLC_NUM_WORKER", fmt::format("{}", ranks_of(roles, kWorker))},
      {"DMLC_NUM_SERVER", fmt::format("{}", ranks_of(roles, kServer))},
      {"DMLC_TASK_ID", fmt::format("{}", input.role_rank)},
      {"DMLC_NUM_ATTEMPT", fmt::format("{}", input.attempt)}};
  if (!address.empty()) variables.emplace_back("DMLC_NODE_HOST", address);
  constexpr const char* kInterface = "DMLC_INTERFACE";
  if (!input.interface.empty() && !user_set.get(kInterface)) variables.emplace_back(kInterface, input.interface);
  return variables;
}

}  // namespace muster::model
