// The whole of launch_plan.h: choice of addresses, and the plan for each host and rank.
// Read it in this order: choose_interface, choose_master_address, then Planner (bind_host, launch, launch_of_rank).
#include "launcherd/plan/launch_plan.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/strings.h"
#include "launcherd/plan/launch_world.h"
#include "launcherd/plan/rank_table.h"
#include "launcherd/plan/store_tree.h"
#include "model/dmlc.h"
#include "model/expand.h"
#include "model/gpu_mask.h"
#include "model/host_binding.h"
#include "model/joining_binding.h"
#include "model/torchrun_command.h"
#include "proto/convert.h"

namespace muster::launcherd::inline plan {
namespace {

// Returns the interface that the host's ranks use: the user's choice, or else the interface towards rank 0's host.
std::string rank_interface(const HostFacts& fact, const model::JobSpec& job) {
  if (!is_network_chosen(job)) return fact.prepared.interface();
  const auto chosen = choose_interface(fact.hello, job);
  return chosen.ok() ? chosen->name() : fact.prepared.interface();
}

// Returns for each rank the address and port at which other ranks reach it, for TF_CONFIG. Empty for other runtimes.
std::vector<std::string> tensorflow_workers(const model::JobSpec& job, const model::Placement& placement,
                                            const HostFactsList& facts) {
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

// Sets the rank's own command if its role has one, or if words of the job's command must be expanded.
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

// Sets the rank's place in its role. Returns the variables that the user set for this role alone.
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

// Sets the rank's input and terminal. Call it after the rank's environment is set, because it adds TERM.
void set_input(const model::JobSpec& job, const std::vector<int>& readers, std::optional<std::string_view> terminal,
               v1::LaunchRank& rank) {
  rank.set_input(std::ranges::binary_search(readers, rank.rank()));
  rank.set_pty(job.input.pty && rank.rank() == 0);
  if (!rank.pty() || !terminal) return;
  v1::EnvVar& variable = *rank.add_environment();
  variable.set_name("TERM");
  variable.set_value(std::string(*terminal));
}

// Returns the rank's variables, to add to the job's variables. The role's own variables come first, then those that
// identify the rank. GPUs that the role's variables name stay, unless the user placed the rank on other GPUs.
proto::EnvList rank_environment(const model::JobSpec& job, const model::RankEnvInput& input, const HostFacts& fact,
                                const base::Environment& of_job, const base::Environment& of_role,
                                const proto::EnvList& gpus, bool is_placed,
                                const std::optional<model::TraceContext>& trace) {
  base::Environment user_set = of_job;
  for (const auto& [name, value] : of_role.entries()) user_set.set(name, value);
  proto::EnvList variables = of_role.entries();
  const auto add = [&](const proto::EnvList& more) { variables.insert(variables.end(), more.begin(), more.end()); };
  add(model::rank_variables(input, user_set));
  if (trace) add(model::trace_variables(*trace, input.attempt, input.rank.rank, user_set));
  if (job.is_dmlc) add(model::dmlc_variables(job.roles, input, rank_address(fact, job), user_set));
  for (const auto& [name, value] : gpus) {
    if (is_placed || !of_role.get(name)) variables.emplace_back(name, value);
  }
  return variables;
}

std::string no_tiles_warning(const std::string& host) {
  return fmt::format(
      "{}: --gpu-bind tile: the kernel shows no Intel GPU, so no rank gets one; describe the GPUs by --gpu-tiles 6x2, "
      "or use --gpu-bind none if the ranks need none",
      host);
}

// If NVIDIA's library reports no GPUs, the agent reads them from files, so some may be missing.
std::string gpu_warning(const std::string& host, const v1::Hello& hello) {
  const std::string text = fmt::format("{}: {}", host, base::printable(hello.gpu_problem()));
  if (!hello.gpu_driver().empty()) return text;  // the problem concerns only one of the GPUs
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

// Returns the numbers of a process that starts with rank `rank.rank`, in a job whose ranks change.
v1::LiveMember member_of(const model::PlacedRank& rank, int size) {
  v1::LiveMember member;
  member.set_number(rank.rank);
  member.set_rank(rank.rank);
  member.set_size(size);
  member.set_local_rank(rank.local_rank);
  member.set_local_size(rank.local_size);
  member.set_cross_rank(rank.cross_rank);
  member.set_cross_size(rank.cross_size);
  return member;
}

}  // namespace

std::string rank_address(const HostFacts& fact, const model::JobSpec& job) {
  if (!is_network_chosen(job)) return fact.prepared.address();
  const auto chosen = choose_interface(fact.hello, job);
  return chosen.ok() ? chosen->address() : fact.prepared.address();
}

v1::JobPeer peer_of(const HostFacts& fact) {
  v1::JobPeer peer;
  for (const v1::NetworkInterface& entry : fact.hello.interfaces()) peer.add_addresses(entry.address());
  peer.set_owner_port(fact.prepared.owner_port());
  return peer;
}

bool has_address(const v1::Hello& hello, const std::string& address) {
  return std::ranges::any_of(hello.interfaces(), [&](const auto& entry) { return entry.address() == address; });
}

bool gives_gpus(const model::JobSpec& job) {
  return job.pinning.gpu_bind != model::GpuBind::kNone ||
         std::ranges::any_of(job.places, [](const model::RankPlace& place) { return !place.gpus.empty(); });
}

bool reports_gpu_users(const v1::Hello& hello) {
  return !hello.gpu_driver().empty() || std::ranges::any_of(hello.gpus(), [](const v1::Gpu& gpu) {
    return gpu.vendor() == v1::GPU_VENDOR_AMD || gpu.vendor() == v1::GPU_VENDOR_INTEL;
  });
}

bool may_wait_for_gpus(const v1::Hello& hello) {
  return reports_gpu_users(hello) || !hello.gpu_problem().empty() || !hello.gpus().empty();
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
  const std::string criteria = job.network ? "--network " + job.network->str()
                                           : "--network-interfaces " + base::join(job.network_interfaces, ",");
  return base::not_found("no network interface of the host matches {}; it has {}", criteria,
                         base::printable(base::join(has, ", ")));
}

base::Result<std::string> choose_master_address(const HostFactsList& facts, const model::JobSpec& job) {
  const HostFacts& master = facts.at(0);
  if (is_network_chosen(job)) {
    MUSTER_ASSIGN_OR_RETURN(const v1::NetworkInterface chosen, choose_interface(master.hello, job));
    return chosen.address();
  }
  // Other hosts may join a job whose ranks change.
  if (facts.size() == 1 && !job.live) return std::string("127.0.0.1");
  if (master.local) {
    // Prefer this machine's address on the way to another host, because that host can reach it.
    for (std::size_t i = 0; i < facts.size(); ++i) {
      const HostFacts& other = facts.at(i);
      if (other.local) continue;
      for (const base::IpAddress& address : other.launcher_addresses) {
        if (!address.is_loopback() && has_address(master.hello, address.str())) return address.str();
      }
      if (has_address(master.hello, other.hello.ssh_client_address())) return other.hello.ssh_client_address();
    }
  } else {
    // Prefer the address at which sshd was reached, because other machines can reach it.
    const std::string& reached = master.hello.ssh_server_address();
    if (!reached.empty() && has_address(master.hello, reached)) return reached;
    if (master.host_address && has_address(master.hello, master.host_address->str())) return master.host_address->str();
  }
  if (const auto any = first_routable(master.hello)) return *any;
  if (facts.size() == 1) return std::string("127.0.0.1");
  return base::unavailable(
      "host {} has only a loopback address, so the other hosts cannot reach rank 0: bring up an "
      "interface there, or list another host first",
      master.hello.hostname());
}

std::string host_identity(const v1::Hello& hello) {
  // The identity needs all three parts. Copies of a machine have the same name, and the first network namespace has the
  // same number on many kernels.
  return fmt::format("{} net:{} {}", hello.hostname(), hello.netns_inode(), first_routable(hello).value_or(""));
}

std::vector<int> find_same_hosts(const HostFactsList& facts) {
  std::map<std::pair<std::string, std::uint32_t>, int> firsts;
  std::vector<int> first_of;
  for (std::size_t i = 0; i < facts.size(); ++i) {
    const int index = static_cast<int>(i);
    const v1::Hello& hello = facts.at(i).hello;
    first_of.push_back(firsts.try_emplace({host_identity(hello), hello.uid()}, index).first->second);
  }
  return first_of;
}

class LaunchPlanner::Planner {
 public:
  Planner(const model::JobSpec& job, const model::Placement& placement, HostFactsList facts, const Attempt& attempt,
          const std::string& master_address, const base::Environment& launcher_environment)
      : job_(job),
        placement_(placement),
        facts_(std::move(facts)),
        attempt_(attempt),
        master_address_(master_address),
        launcher_environment_(launcher_environment),
        readers_(model::reading_ranks(job.input, placement.size)),
        workers_(tensorflow_workers(job, placement, facts_)),
        role_masks_(model::role_masks(job.roles, launcher_environment)),
        tree_(prepared_store_tree(job, placement, facts_, launcher_environment)) {
    for (const auto& [name, value] : model::exported_variables(launcher_environment, job.environment, false)) {
      user_set_.set(name, value);
    }
    // TERM is the type of the launcher's terminal, unless the user sets it.
    if (!user_set_.get("TERM")) terminal_ = launcher_environment.get("TERM");
    bindings_.resize(static_cast<std::size_t>(placement.size));
  }

  // Call it for each host in order, then finish().
  base::Status bind_host(std::size_t index);
  void finish();
  v1::Launch launch(std::size_t index) const;
  const std::vector<model::BoundRank>& bindings() const { return bindings_; }
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  bool has_torch_watchdog() const;
  const proto::EnvList& exported_to(const HostFacts& fact) const;
  std::vector<std::size_t> peers_of(std::size_t index) const;
  v1::Launch launch_of_host(std::size_t index) const;
  void warn(const model::PlacedHost& host, const HostFacts& fact, const model::NodeBinding& binding);
  model::RankEnvInput input_of_host(const model::PlacedHost& host, const HostFacts& fact) const;
  bool leads_to_own_host(const HostFacts& fact, const model::RankEnvInput& input) const;
  v1::LaunchRank launch_of_rank(const HostFacts& fact, model::RankEnvInput input, const model::RankBinding& cores,
                                const model::RankGpus& gpus, bool is_placed) const;

  const model::JobSpec& job_;
  const model::Placement& placement_;
  const HostFactsList facts_;
  const Attempt& attempt_;
  const std::string& master_address_;
  const base::Environment& launcher_environment_;
  std::vector<int> readers_;
  std::vector<std::string> workers_;
  std::vector<model::RoleMasks> role_masks_;
  std::optional<rendezvous::HostTree> tree_;  // nullopt if the job's hosts form a star
  base::Environment user_set_;
  std::optional<std::string_view> terminal_;
  mutable std::optional<proto::EnvList> exported_;        // to a host that is not this machine
  mutable std::optional<proto::EnvList> exported_local_;  // to this machine
  std::vector<model::NodeBinding> nodes_;                 // by host
  std::vector<std::vector<bool>> has_gpus_;               // by host, for each rank: its GPUs were requested
  std::vector<model::BoundRank> bindings_;
  std::vector<std::string> warnings_;
  std::string world_;
  v1::RankTable rank_table_;
};

const proto::EnvList& LaunchPlanner::Planner::exported_to(const HostFacts& fact) const {
  std::optional<proto::EnvList>& exported = fact.local ? exported_local_ : exported_;
  if (!exported) exported = model::exported_variables(launcher_environment_, job_.environment, fact.local);
  return *exported;
}

base::Status LaunchPlanner::Planner::bind_host(std::size_t index) {
  const model::PlacedHost& host = placement_.hosts[index];
  const HostFacts& fact = facts_.at(index);
  const model::NodeShape node = proto::node_shape_of(fact.hello);
  model::GpuMasks masks;
  model::set_gpu_masks(exported_to(fact), masks);
  const std::vector<model::RankRequest> rank_requests = model::requests_on(job_.places, role_masks_, host);
  const model::HostShare* const share = host.share ? &*host.share : nullptr;
  std::vector<model::BoundRank> running = attempt_.running;
  std::erase_if(running, [&](const model::BoundRank& rank) { return rank.host != host.host.name; });
  auto binding = running.empty() ? model::bind_host(node, rank_requests, job_.pinning, masks, share)
                                 : model::bind_joining(node, rank_requests, running, job_.pinning, masks, share);
  if (!binding.ok()) return binding.status().with_context(host.host.name);
  warn(host, fact, *binding);
  std::vector<bool> has_gpus;
  for (std::size_t k = 0; k < host.ranks.size(); ++k) {
    bindings_[static_cast<std::size_t>(host.ranks[k].rank)] =
        binding_of(host, host.ranks[k], binding->cores[k], binding->gpus[k]);
    has_gpus.push_back(rank_requests[k].has_gpus());
  }
  nodes_.push_back(*std::move(binding));
  has_gpus_.push_back(std::move(has_gpus));
  return base::ok_status();
}

v1::Launch LaunchPlanner::Planner::launch(std::size_t index) const {
  const model::PlacedHost& host = placement_.hosts[index];
  const HostFacts& fact = facts_.at(index);
  v1::Launch launch = launch_of_host(index);
  model::RankEnvInput input = input_of_host(host, fact);
  for (std::size_t k = 0; k < host.ranks.size(); ++k) {
    input.rank = host.ranks[k];
    *launch.add_ranks() =
        launch_of_rank(fact, input, nodes_[index].cores[k], nodes_[index].gpus[k], has_gpus_[index][k]);
    if (job_.live) *launch.add_live_members() = member_of(input.rank, placement_.size);
  }
  return launch;
}

// Returns whether the agents serve torch's watchdog. The variable is one of torchrun's agent, so ranks do not inherit
// it.
bool LaunchPlanner::Planner::has_torch_watchdog() const {
  const auto of_launcher = launcher_environment_.get("TORCHELASTIC_ENABLE_FILE_TIMER");
  const auto wanted = user_set_.get("TORCHELASTIC_ENABLE_FILE_TIMER");
  return job_.torch_agent_store && (wanted ? wanted : of_launcher) == "1";
}

// Returns the host's part of the plan, without its ranks.
// Returns the hosts that may connect to this one, or to which it connects. In a job whose ranks change, each host may
// later have the store.
std::vector<std::size_t> LaunchPlanner::Planner::peers_of(std::size_t index) const {
  std::vector<std::size_t> peers;
  if (index == 0 || job_.live) {
    for (std::size_t i = 0; i < facts_.size(); ++i) {
      if (i != index) peers.push_back(i);
    }
    return peers;
  }
  peers.push_back(0);
  if (tree_) add_linked(*tree_, index, peers);
  return peers;
}

v1::Launch LaunchPlanner::Planner::launch_of_host(std::size_t index) const {
  v1::Launch launch;
  launch.set_world(world_);
  if (rank_table_.hosts_size() > 0) *launch.mutable_rank_table() = rank_table_;
  launch.mutable_command()->Add(job_.command.begin(), job_.command.end());
  launch.set_workdir(job_.workdir);
  launch.set_umask(job_.umask);
  launch.set_wants_error_files(!job_.log_dir.empty());
  launch.set_progress_file(job_.failure.progress_file);
  launch.set_reports_first_collective(true);
  launch.set_serves_torch_watchdog(has_torch_watchdog());
  launch.set_host(static_cast<int>(index));
  if (index > 0) {
    launch.set_horovod_address(master_address_);
    launch.set_horovod_port(facts_.at(0).prepared.horovod_port());
  }
  if (tree_) set_store_tree(*tree_, facts_, launch);
  for (const std::size_t peer : peers_of(index)) *launch.add_peers() = peer_of(facts_.at(peer));
  proto::set_limits(job_.limits, launch);
  proto::set_environment(exported_to(facts_.at(index)), *launch.mutable_environment());
  if (!job_.container.image.empty()) {
    const model::NodeShape node = proto::node_shape_of(facts_.at(index).hello);
    *launch.mutable_container() = proto::to_proto(on_host(job_.container, node));
  }
  return launch;
}

void LaunchPlanner::Planner::warn(const model::PlacedHost& host, const HostFacts& fact,
                                  const model::NodeBinding& binding) {
  const std::string& name = host.host.name;
  const int ranks = binding.dealt_ranks;
  if (gives_gpus(job_) && !fact.hello.gpu_problem().empty()) warnings_.push_back(gpu_warning(name, fact.hello));
  const std::string crowd = model::crowd_remark(ranks, binding.visible_gpus, job_.pinning);
  if (!crowd.empty()) warnings_.push_back(fmt::format("{}: {}", name, crowd));
  if (!binding.remark.empty()) warnings_.push_back(fmt::format("{}: {}", name, binding.remark));
  if (binding.visible_gpus == 0 && ranks > 0 && job_.pinning.gpu_bind == model::GpuBind::kTile) {
    warnings_.push_back(no_tiles_warning(name));
  }
}

// Returns the input values that all ranks of the host share.
model::RankEnvInput LaunchPlanner::Planner::input_of_host(const model::PlacedHost& host, const HostFacts& fact) const {
  model::RankEnvInput input;
  input.job_id = attempt_.job_id;
  input.attempt = attempt_.number;
  input.restarts = attempt_.restarts;
  input.max_restarts = job_.max_restarts;
  input.is_live = job_.live.has_value();
  input.has_peers_elsewhere = attempt_.has_peers_elsewhere;
  input.size = placement_.size;
  input.nnodes = static_cast<int>(placement_.hosts.size());
  input.hostname = host.host.name;
  input.session_dir = fact.hello.session_dir();
  input.master_addr = master_address_;
  input.master_port = facts_.at(0).prepared.master_port();
  input.role = job_.role;
  input.torch_agent_store = job_.torch_agent_store;
  input.has_torch_watchdog = has_torch_watchdog();
  input.is_torchrun = model::serves_torchrun(job_) && !model::has_own_rendezvous(user_set_);
  input.torchrun_workers = std::max(1, host.slots / std::max(1, static_cast<int>(host.ranks.size())));
  input.address = rank_address(fact, job_);
  input.runtime = job_.runtime;
  input.tensorflow_workers = workers_;
  input.interface = rank_interface(fact, job_);
  return input;
}

// True for ranks of other hosts than rank 0's if their own host forwards torch's store.
bool LaunchPlanner::Planner::leads_to_own_host(const HostFacts& fact, const model::RankEnvInput& input) const {
  return tree_ && input.rank.host_index > 0 && fact.prepared.master_port() > 0 &&
         serves_torch_on_each_host(job_, launcher_environment_);
}

v1::LaunchRank LaunchPlanner::Planner::launch_of_rank(const HostFacts& fact, model::RankEnvInput input,
                                                      const model::RankBinding& cores, const model::RankGpus& gpus,
                                                      bool is_placed) const {
  v1::LaunchRank rank;
  input.omp_num_threads = cores.physical_cores;
  rank.set_rank(input.rank.rank);
  const base::Environment of_role = set_role(job_, launcher_environment_, input);
  const model::Role* const role = model::role_of(job_.roles, input.rank.rank).role;
  set_command(job_, role, input, rank);
  if (role != nullptr) rank.set_workdir(role->workdir);
  const bool is_local_store = leads_to_own_host(fact, input);
  if (is_local_store) {  // words of the command that name rank 0's address keep it
    input.master_addr = "127.0.0.1";
    input.master_port = fact.prepared.master_port();
  }
  proto::set_environment(
      rank_environment(job_, input, fact, user_set_, of_role, gpus.variables, is_placed, attempt_.trace),
      *rank.mutable_environment());
  if (is_local_store) put_master_address(master_address_, rank);
  set_input(job_, readers_, terminal_, rank);
  rank.mutable_cpus()->Add(cores.cpus.begin(), cores.cpus.end());
  return rank;
}

void LaunchPlanner::Planner::finish() {
  world_ = world_of_job(job_, placement_, fmt::format("muster-{}-{}", attempt_.job_id, attempt_.number), user_set_,
                        bindings_);
  // The plan of processes that join a running job does not have all ranks. The next generation brings the table.
  if (!attempt_.running.empty()) return;
  rank_table_ = rank_table_of(
      placement_, [this](std::size_t host) { return rank_address(facts_.at(host), job_); },
      [this](int rank) { return static_cast<int>(bindings_[static_cast<std::size_t>(rank)].cpus.size()); });
}

LaunchPlanner::LaunchPlanner(std::unique_ptr<Planner> planner) : planner_(std::move(planner)) {}
LaunchPlanner::LaunchPlanner(LaunchPlanner&& other) noexcept = default;
LaunchPlanner& LaunchPlanner::operator=(LaunchPlanner&& other) noexcept = default;
LaunchPlanner::~LaunchPlanner() = default;

base::Result<LaunchPlanner> LaunchPlanner::make(const model::JobSpec& job, const model::Placement& placement,
                                                HostFactsList facts, const Attempt& attempt,
                                                const std::string& master_address,
                                                const base::Environment& launcher_environment) {
  MUSTER_RETURN_IF_ERROR(store_fanout(launcher_environment).status());
  auto planner =
      std::make_unique<Planner>(job, placement, std::move(facts), attempt, master_address, launcher_environment);
  for (std::size_t host = 0; host < placement.hosts.size(); ++host) {
    MUSTER_RETURN_IF_ERROR(planner->bind_host(host));
  }
  planner->finish();
  return LaunchPlanner(std::move(planner));
}

const std::vector<model::BoundRank>& LaunchPlanner::bindings() const {
  return planner_->bindings();
}
const std::vector<std::string>& LaunchPlanner::warnings() const {
  return planner_->warnings();
}
v1::Launch LaunchPlanner::launch(std::size_t host) const {
  return planner_->launch(host);
}

base::Result<LaunchPlan> plan_launch(const model::JobSpec& job, const model::Placement& placement,
                                     const std::vector<HostFacts>& facts, const Attempt& attempt,
                                     const std::string& master_address, const base::Environment& launcher_environment) {
  MUSTER_ASSIGN_OR_RETURN(
      const LaunchPlanner planner,
      LaunchPlanner::make(job, placement, HostFactsList(facts), attempt, master_address, launcher_environment));
  LaunchPlan plan{.hosts = {}, .bindings = planner.bindings(), .warnings = planner.warnings()};
  for (std::size_t host = 0; host < placement.hosts.size(); ++host) plan.hosts.push_back(planner.launch(host));
  return plan;
}

}  // namespace muster::launcherd::plan
