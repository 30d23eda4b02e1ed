#include "launcherd/jobs/launch_plan.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/strings.h"
#include "launcherd/jobs/launch_world.h"
#include "model/dmlc.h"
#include "model/expand.h"
#include "model/gpu_mask.h"
#include "model/host_binding.h"
#include "proto/convert.h"

namespace muster::launcherd {
namespace {

// By which the ranks of a host talk: as the user chose, else the way to rank 0's host.
std::string rank_interface(const HostFacts& fact, const model::JobSpec& job) {
  if (!is_network_chosen(job)) return fact.prepared.interface();
  const auto chosen = choose_interface(fact.hello, job);
  return chosen.ok() ? chosen->name() : fact.prepared.interface();
}

// Where the other hosts reach its ranks.
std::string rank_address(const HostFacts& fact, const model::JobSpec& job) {
  if (!is_network_chosen(job)) return fact.prepared.address();
  const auto chosen = choose_interface(fact.hello, job);
  return chosen.ok() ? chosen->address() : fact.prepared.address();
}

// Of each rank, where the others reach it: for TF_CONFIG.
std::vector<std::string> tensorflow_workers(const model::JobSpec& job, const model::Placement& placement,
                                            const std::vector<HostFacts>& facts) {
  std::vector<std::string> workers;
  if (job.runtime != model::Runtime::kTensorflow) return workers;
  workers.resize(static_cast<std::size_t>(placement.size));
  for (std::size_t i = 0; i < placement.hosts.size(); ++i) {
    const HostFacts& fact = facts.at(i);
    const std::string address = rank_address(fact, job);
    const auto& ranks = placement.hosts[i].ranks;
    for (std::size_t k = 0; k < ranks.size(); ++k) {
      const int port =
          static_cast<int>(k) < fact.prepared.held_ports_size() ? fact.prepared.held_ports(static_cast<int>(k)) : 0;
      workers[static_cast<std::size_t>(ranks[k].rank)] = model::host_and_port(address, port);
    }
  }
  return workers;
}

std::optional<std::string> first_routable(const v1::Hello& hello) {
  for (const v1::NetworkInterface& entry : hello.interfaces()) {
    const auto address = base::IpAddress::parse(entry.address());
    if (address.ok() && !address->is_loopback()) return entry.address();
  }
  return std::nullopt;
}

// The rank's own command, where its role has one, or some of the job's words are to be expanded.
void set_command(const model::JobSpec& job, const model::Role* role, const model::RankEnvInput& input,
                 v1::LaunchRank& rank) {
  const bool is_own = role != nullptr && !role->command.empty();
  if (is_own && !job.expands_roles) {
    rank.mutable_command()->Add(role->command.begin(), role->command.end());
    return;
  }
  if (!is_own && job.expand.empty()) return;
  const model::ExpandValues values{.rank = input.rank.rank,
                                   .local_rank = input.rank.local_rank,
                                   .node_rank = input.rank.host_index,
                                   .nnodes = input.nnodes,
                                   .size = input.size,
                                   .host = input.hostname,
                                   .master_addr = input.master_addr,
                                   .master_port = input.master_port};
  if (is_own) {
    for (const std::string& word : role->command) rank.add_command(model::expand(word, values));
    return;
  }
  rank.mutable_command()->Add(job.command.begin(), job.command.end());
  for (const std::size_t index : job.expand) {
    std::string& word = *rank.mutable_command(static_cast<int>(index));
    word = model::expand(word, values);
  }
}

// Its place in its role, and what the user said of the role alone.
base::Environment set_role(const model::JobSpec& job, const base::Environment& launcher_environment,
                           model::RankEnvInput& input) {
  base::Environment variables;
  const model::RoleOfRank place = model::role_of(job.roles, input.rank.rank);
  if (place.role == nullptr) return variables;
  input.role = place.role->name;
  input.role_rank = place.rank;
  input.role_size = place.role->np;
  const model::ExportPolicy own{.named = place.role->environment, .only_named = true};
  for (const auto& [name, value] : model::exported_variables(launcher_environment, own, false)) {
    variables.set(name, value);
  }
  return variables;
}

// After its environment.
void set_input(const model::JobSpec& job, const std::vector<int>& readers, std::optional<std::string_view> terminal,
               v1::LaunchRank& rank) {
  rank.set_input(std::ranges::binary_search(readers, rank.rank()));
  rank.set_pty(job.input.pty && rank.rank() == 0);
  if (!rank.pty() || !terminal) return;
  v1::EnvVar& variable = *rank.add_environment();
  variable.set_name("TERM");
  variable.set_value(std::string(*terminal));
}

// Over the job's: the role's own variables, then what makes it this rank. GPUs that the role names itself
// stay, unless somebody has placed the rank on others.
proto::EnvList rank_environment(const model::JobSpec& job, const model::RankEnvInput& input, const HostFacts& fact,
                                const base::Environment& of_job, const base::Environment& of_role,
                                const proto::EnvList& gpus, bool is_placed) {
  base::Environment user_set = of_job;
  for (const auto& [name, value] : of_role.entries()) user_set.set(name, value);
  proto::EnvList variables = of_role.entries();
  const auto add = [&](const proto::EnvList& more) { variables.insert(variables.end(), more.begin(), more.end()); };
  add(model::rank_variables(input, user_set));
  if (job.is_dmlc) add(model::dmlc_variables(job.roles, input, rank_address(fact, job), user_set));
  for (const auto& [name, value] : gpus) {
    if (is_placed || !of_role.get(name)) variables.emplace_back(name, value);
  }
  return variables;
}

std::string crowd_warning(const std::string& host, int ranks, int gpus, model::GpuBind gpu_bind) {
  const char* noun = gpu_bind == model::GpuBind::kTile ? "tile" : "GPU";
  const char* each = gpus == 1 ? "all use that one" : "local rank R uses number R modulo that";
  return fmt::format("{}: {} ranks but {} {}{}: {} (--share-gpu if that is meant, --gpu-bind none if they need none)",
                     host, ranks, gpus, noun, gpus == 1 ? "" : "s", each);
}

std::string no_tiles_warning(const std::string& host) {
  return fmt::format(
      "{}: --gpu-bind tile: the kernel shows no Intel GPU, so no rank is given one (--gpu-tiles 6x2 says what there "
      "is, "
      "--gpu-bind none that none is needed)",
      host);
}

// What NVIDIA's library does not tell is taken from files, and may be less than there is.
std::string gpu_warning(const std::string& host, const v1::Hello& hello) {
  const std::string text = fmt::format("{}: {}", host, base::printable(hello.gpu_problem()));
  if (!hello.gpu_driver().empty()) return text;  // of one of the GPUs
  return text + "; its GPUs are known from files only (--gpu-bind none if the ranks need none)";
}

model::BoundRank binding_of(const model::PlacedHost& host, const model::PlacedRank& place,
                            const model::RankBinding& cores, const model::RankGpus& gpus) {
  return {.rank = place.rank,
          .host = host.host.name,
          .local_rank = place.local_rank,
          .cpus = cores.cpus,
          .gpus = gpus.indices,
          .devices = gpus.devices};
}

}  // namespace

bool has_address(const v1::Hello& hello, const std::string& address) {
  return std::ranges::any_of(hello.interfaces(), [&](const auto& entry) { return entry.address() == address; });
}

bool gives_gpus(const model::JobSpec& job) {
  return job.pinning.gpu_bind != model::GpuBind::kNone ||
         std::ranges::any_of(job.places, [](const model::RankPlace& place) { return !place.gpus.empty(); });
}

bool tells_gpu_users(const v1::Hello& hello) {
  return !hello.gpu_driver().empty() || std::ranges::any_of(hello.gpus(), [](const v1::Gpu& gpu) {
    return gpu.vendor() == v1::GPU_VENDOR_AMD || gpu.vendor() == v1::GPU_VENDOR_INTEL;
  });
}

bool may_wait_for_gpus(const v1::Hello& hello) {
  return tells_gpu_users(hello) || !hello.gpu_problem().empty() || !hello.gpus().empty();
}

bool is_network_chosen(const model::JobSpec& job) {
  return job.network.has_value() || !job.network_interfaces.empty();
}

base::Result<v1::NetworkInterface> choose_interface(const v1::Hello& hello, const model::JobSpec& job) {
  const auto is_in_network = [&](const v1::NetworkInterface& entry) {
    const auto address = base::IpAddress::parse(entry.address());
    return address.ok() && (!job.network || job.network->contains(*address));
  };
  std::vector<std::string> has;
  for (const v1::NetworkInterface& entry : hello.interfaces()) {
    if (job.network_interfaces.empty() && is_in_network(entry)) return entry;
    has.push_back(fmt::format("{} {}", entry.name(), entry.address()));
  }
  for (const std::string& name : job.network_interfaces) {
    for (const v1::NetworkInterface& entry : hello.interfaces()) {
      if (entry.name() == name && is_in_network(entry)) return entry;
    }
  }
  const std::string wish = job.network ? "--network " + job.network->str()
                                       : "--network-interfaces " + base::join(job.network_interfaces, ",");
  return base::error(base::Code::kNotFound, "none of its interfaces is in {}: it has {}", wish,
                     base::printable(base::join(has, ", ")));
}

base::Result<std::string> choose_master_address(const std::vector<HostFacts>& facts, const model::JobSpec& job) {
  const HostFacts& master = facts.at(0);
  if (is_network_chosen(job)) {
    MUSTER_ASSIGN_OR_RETURN(const v1::NetworkInterface chosen, choose_interface(master.hello, job));
    return chosen.address();
  }
  if (facts.size() == 1) return std::string("127.0.0.1");
  if (master.local) {
    // The other hosts reach this machine by the address that it has on the way to them.
    for (const HostFacts& other : facts) {
      if (other.local) continue;
      for (const base::IpAddress& address : other.launcher_addresses) {
        if (!address.is_loopback() && has_address(master.hello, address.str())) return address.str();
      }
      if (has_address(master.hello, other.hello.ssh_client_address())) return other.hello.ssh_client_address();
    }
  } else {
    // Where sshd was reached: an address of the host that is known to work from outside.
    const std::string& reached = master.hello.ssh_server_address();
    if (!reached.empty() && has_address(master.hello, reached)) return reached;
    if (master.host_address && has_address(master.hello, master.host_address->str())) return master.host_address->str();
  }
  if (const auto any = first_routable(master.hello)) return *any;
  return base::error(base::Code::kUnavailable,
                     "host {} has no network address but loopback, so the other hosts cannot reach rank 0: bring up an "
                     "interface there, or list another host first",
                     master.hello.hostname());
}

std::string host_identity(const v1::Hello& hello) {
  return fmt::format("{} net:{}", hello.hostname(), hello.netns_inode());
}

std::vector<int> find_same_hosts(const std::vector<HostFacts>& facts) {
  std::map<std::pair<std::string, std::uint32_t>, int> firsts;
  std::vector<int> first_of;
  for (const HostFacts& each : facts) {
    const int index = static_cast<int>(first_of.size());
    const v1::Hello& hello = each.hello;
    first_of.push_back(firsts.try_emplace({host_identity(hello), hello.uid()}, index).first->second);
  }
  return first_of;
}

base::Result<LaunchPlan> plan_launch(const model::JobSpec& job, const model::Placement& placement,
                                     const std::vector<HostFacts>& facts, const Attempt& attempt,
                                     const std::string& master_address, const base::Environment& launcher_environment) {
  base::Environment user_set;
  for (const auto& [name, value] : model::exported_variables(launcher_environment, job.environment, false)) {
    user_set.set(name, value);
  }
  // What kind of terminal it is, unless the user says another.
  const auto terminal = user_set.get("TERM") ? std::nullopt : launcher_environment.get("TERM");
  const std::vector<int> readers = model::reading_ranks(job.input, placement.size);
  const int master_port = facts.at(0).prepared.master_port();
  const std::vector<std::string> workers = tensorflow_workers(job, placement, facts);
  const std::vector<model::RoleMasks> role_masks = model::role_masks(job.roles, launcher_environment);
  LaunchPlan plan;
  plan.bindings.resize(static_cast<std::size_t>(placement.size));
  for (std::size_t i = 0; i < placement.hosts.size(); ++i) {
    const model::PlacedHost& host = placement.hosts[i];
    const HostFacts& fact = facts.at(i);
    const std::string interface = rank_interface(fact, job);
    v1::Launch& launch = plan.hosts.emplace_back();
    launch.mutable_command()->Add(job.command.begin(), job.command.end());
    launch.set_workdir(job.workdir);
    launch.set_umask(job.umask);
    if (i > 0) {
      launch.set_horovod_address(master_address);
      launch.set_horovod_port(facts.at(0).prepared.horovod_port());
    }
    launch.set_host(static_cast<int>(i));
    proto::set_limits(job.limits, launch);
    const auto exported = model::exported_variables(launcher_environment, job.environment, fact.local);
    proto::set_environment(exported, *launch.mutable_environment());
    model::GpuMasks masks;
    model::set_gpu_masks(exported, masks);
    const model::NodeShape node = proto::node_shape_of(fact.hello);
    if (!job.container.image.empty()) *launch.mutable_container() = proto::to_proto(on_host(job.container, node));
    if (gives_gpus(job) && !fact.hello.gpu_problem().empty()) {
      plan.warnings.push_back(gpu_warning(host.host.name, fact.hello));
    }
    const std::vector<model::RankWish> wishes = model::wishes_on(job.places, role_masks, host);
    auto bound = model::bind_host(node, wishes, job.pinning, masks, host.share ? &*host.share : nullptr);
    if (!bound.ok()) return bound.status().with_context(host.host.name);
    const model::NodeBinding& binding = *bound;
    const int ranks = binding.dealt_ranks;
    if (binding.visible_gpus > 0 && binding.visible_gpus < ranks && !job.pinning.share_gpu) {
      plan.warnings.push_back(crowd_warning(host.host.name, ranks, binding.visible_gpus, job.pinning.gpu_bind));
    }
    if (!binding.remark.empty()) plan.warnings.push_back(fmt::format("{}: {}", host.host.name, binding.remark));
    if (binding.visible_gpus == 0 && ranks > 0 && job.pinning.gpu_bind == model::GpuBind::kTile) {
      plan.warnings.push_back(no_tiles_warning(host.host.name));
    }
    for (std::size_t k = 0; k < host.ranks.size(); ++k) {
      model::RankEnvInput input;
      input.job_id = attempt.job_id;
      input.attempt = attempt.number;
      input.max_restarts = job.max_restarts;
      input.rank = host.ranks[k];
      input.size = placement.size;
      input.nnodes = static_cast<int>(placement.hosts.size());
      input.hostname = host.host.name;
      input.session_dir = fact.hello.session_dir();
      input.master_addr = master_address;
      input.master_port = master_port;
      input.role = job.role;
      input.torch_agent_store = job.torch_agent_store;
      input.runtime = job.runtime;
      input.tensorflow_workers = workers;
      input.interface = interface;
      input.omp_num_threads = binding.cores[k].physical_cores;
      v1::LaunchRank& rank = *launch.add_ranks();
      rank.set_rank(host.ranks[k].rank);
      const base::Environment of_role = set_role(job, launcher_environment, input);
      const model::Role* const role = model::role_of(job.roles, input.rank.rank).role;
      set_command(job, role, input, rank);
      if (role != nullptr) rank.set_workdir(role->workdir);
      proto::set_environment(
          rank_environment(job, input, fact, user_set, of_role, binding.gpus[k].variables, wishes[k].has_gpus()),
          *rank.mutable_environment());
      set_input(job, readers, terminal, rank);
      rank.mutable_cpus()->Add(binding.cores[k].cpus.begin(), binding.cores[k].cpus.end());
      plan.bindings[static_cast<std::size_t>(host.ranks[k].rank)] =
          binding_of(host, host.ranks[k], binding.cores[k], binding.gpus[k]);
    }
  }
  set_world(job, placement, fmt::format("muster-{}-{}", attempt.job_id, attempt.number), user_set, plan.hosts);
  return plan;
}

}  // namespace muster::launcherd
