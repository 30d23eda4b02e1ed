#include "launcherd/plan/store_tree.h"

#include "base/strings.h"
#include "proto/muster/v1/store_plan.pb.h"

namespace muster::launcherd::inline plan {
namespace {

constexpr long kMostFanout = 1 << 20;

}  // namespace

base::Result<int> store_fanout(const base::Environment& launcher_environment) {
  const auto text = launcher_environment.get("MUSTER_STORE_FANOUT");
  if (!text || text->empty()) return rendezvous::kDefaultStoreFanout;
  const auto number = base::parse_decimal(*text, kMostFanout);
  if (number && *number > 0) return static_cast<int>(*number);
  return base::invalid_argument("MUSTER_STORE_FANOUT={}: not a number from 1 to {}", base::printable(*text),
                                kMostFanout);
}

std::optional<rendezvous::HostTree> store_tree(const model::JobSpec& job, std::size_t hosts,
                                               const base::Environment& launcher_environment) {
  const base::Result<int> fanout = store_fanout(launcher_environment);
  // plan_launch() reports a wrong fan-out. In a job whose ranks change, each generation may have another root.
  if (!fanout.ok() || job.live || hosts <= static_cast<std::size_t>(*fanout)) return std::nullopt;
  return rendezvous::HostTree{.hosts = static_cast<int>(hosts), .fanout = *fanout};
}

std::optional<rendezvous::HostTree> prepared_store_tree(const model::JobSpec& job, const model::Placement& placement,
                                                        const HostFactsList& facts,
                                                        const base::Environment& launcher_environment) {
  const auto tree = store_tree(job, facts.size(), launcher_environment);
  for (int host = 1; tree && host < tree->hosts; ++host) {
    const auto index = static_cast<std::size_t>(host);
    const v1::Prepared& prepared = facts.at(index).prepared;
    // The ports before the last one are those of TensorFlow's ranks.
    const std::size_t others =
        job.runtime == model::Runtime::kTensorflow ? placement.hosts.at(index).ranks.size() : std::size_t{0};
    const bool is_prepared =
        static_cast<std::size_t>(prepared.held_ports_size()) > others && !prepared.address().empty();
    if (tree->has_children(host) && !is_prepared) return std::nullopt;
  }
  return tree;
}

// A job that runs torchrun on each host is not served, because torchrun must know the store's real address.
bool serves_torch_on_each_host(const model::JobSpec& job, const base::Environment& launcher_environment) {
  return job.torch_agent_store && launcher_environment.get("MUSTER_TORCH_STORE") != "rank0";
}

void prepare_for_tree(const rendezvous::HostTree& tree, int host, bool serves_torch, v1::Prepare& prepare) {
  if (host == 0) return;  // it has ports for all hosts
  if (tree.has_children(host)) prepare.set_hold_ports(prepare.hold_ports() + 1);
  prepare.set_serve_torch(serves_torch);
}

void set_store_tree(const rendezvous::HostTree& tree, const HostFactsList& facts, v1::Launch& launch) {
  v1::StorePlan plan;
  plan.set_hosts(tree.hosts);
  plan.set_fanout(tree.fanout);
  plan.set_serves_on_held_port(launch.host() > 0 && tree.has_children(launch.host()));
  launch.set_stores(plan.SerializeAsString());
  if (launch.host() == 0 || tree.parent(launch.host()) == 0) return;
  const v1::Prepared& parent = facts.at(static_cast<std::size_t>(tree.parent(launch.host()))).prepared;
  launch.set_horovod_address(parent.address());
  launch.set_horovod_port(parent.held_ports(parent.held_ports_size() - 1));
}

void put_master_address(const std::string& address, v1::LaunchRank& rank) {
  v1::EnvVar& variable = *rank.add_environment();
  variable.set_name("MUSTER_MASTER_ADDR");
  variable.set_value(address);
}

bool are_linked(const rendezvous::HostTree& tree, std::size_t a, std::size_t b) {
  const auto is_parent = [&](std::size_t above, std::size_t host) {
    return host > 0 && tree.parent(static_cast<int>(host)) == static_cast<int>(above);
  };
  return is_parent(a, b) || is_parent(b, a);
}

}  // namespace muster::launcherd::plan
