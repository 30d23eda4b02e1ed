#include "agent/job/rank_pmi.h"
#include "agent/job/env_entries.h"

#include <sys/resource.h>

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "proto/world_bytes.h"

namespace muster::agent::inline job {
namespace {

constexpr const char* kPmiVariables[] = {"PMI_FD", "PMI_RANK", "PMI_SIZE", "MPIR_CVAR_PMI_VERSION"};

void set(const std::string& name, int value, std::vector<std::string>& env) {
  unset_entry(name, env);
  env.push_back(fmt::format("{}={}", name, value));
}

bool has(const std::string& name, const std::vector<std::string>& env) {
  return std::ranges::any_of(env, [&](const std::string& entry) { return entry.starts_with(name + "="); });
}

}  // namespace

bool host_has_rdma() {
  std::error_code none;  // an error means that the folder is missing, so there is no driver
  const std::filesystem::directory_iterator devices("/sys/class/infiniband", none);
  return !none && devices != std::filesystem::directory_iterator();
}

// In this list, the user's variables for a role come before MUSTER_JOB_ID, and the launcher's own come after it.
bool is_of_launcher(const v1::LaunchRank& rank, const std::string& name) {
  bool is_theirs = false;
  for (auto variable = rank.environment().rbegin(); variable != rank.environment().rend(); ++variable) {
    if (variable->name() == name) is_theirs = true;
    if (variable->name() == "MUSTER_JOB_ID") return is_theirs;
  }
  return false;
}

std::vector<std::string> pmi_variable_names() {
  return {std::begin(kPmiVariables), std::end(kPmiVariables)};
}

void RankPmi::open(const v1::Launch& launch, rendezvous::HorovodKeys* keys) {
  if (launch.world().empty() || keys == nullptr) return;
  auto parsed = proto::world_of_bytes(launch.world());
  if (parsed) world_ = *std::move(parsed);
  if (launch.host() < 0 || launch.host() >= world_.hosts_size()) {
    on_problem_(base::invalid_argument("the launcher's table of ranks for MPI cannot be read"));
    return;
  }
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur <= kPmiDescriptor) {
    on_problem_(base::failed_precondition(
        "programs of MPICH will not find each other: they need descriptor {}, but the limit of open "
        "files (ulimit -n) is {}; raise it",
        kPmiDescriptor, files.rlim_cur));
    return;
  }
  host_ = launch.host();
  has_rdma_ = host_has_rdma();
  server_ = std::make_unique<PmiServer>(
      loop_, *keys, [this] { return world(); },
      PmiEvents{.connected = [this](int rank) { ends_.connected(rank); },
                .finalized = [this](int rank) { ends_.finalized(rank); },
                .aborted = [this](int rank, int code) { ends_.aborted(rank, code); },
                .spawn_refused =
                    [this](int rank) {
                      if (ends_.spawn_refused(rank)) on_problem_(base::unimplemented("{}", refused_spawn(rank)));
                    },
                .on_problem = on_problem_});
}

PmiWorld RankPmi::world() const {
  PmiWorld world{.name = world_.name(), .size = world_.size(), .host = host_, .hosts = {}};
  for (const v1::WorldProgram& program : world_.programs()) world.programs.push_back(program.ranks());
  for (const v1::WorldHost& host : world_.hosts()) world.hosts.emplace_back(host.ranks().begin(), host.ranks().end());
  return world;
}

void RankPmi::plan(const v1::LaunchRank& rank, SpawnRequest& request) const {
  if (server_ == nullptr) return;
  // Remove the launcher's choice, an Ethernet interface, because the launcher does not know this host's other networks.
  // If the user has set the variable, the launcher has chosen nothing.
  if (has_rdma_ && is_of_launcher(rank, "UCX_NET_DEVICES")) unset_entry("UCX_NET_DEVICES", request.env);
  request.wants_pmi = true;
  set("PMI_FD", kPmiDescriptor, request.env);
  set("PMI_RANK", request.rank, request.env);
  set("PMI_SIZE", world_.size(), request.env);
  // MPICH 4.3 and later must choose between PMI and PMIx if it finds both; this variable chooses PMI-1.
  if (!has("MPIR_CVAR_PMI_VERSION", request.env)) set("MPIR_CVAR_PMI_VERSION", 1, request.env);
}

void RankPmi::started(RankStarted& started) {
  if (server_ != nullptr && started.pmi_fd.valid()) server_->add(started.rank, std::move(started.pmi_fd));
}

std::optional<Awaited> RankPmi::awaited(int rank) const {
  const auto since = server_ == nullptr ? std::nullopt : server_->waits_since(rank);
  if (!since) return std::nullopt;
  return Awaited{.what = "the PMI fence", .since = *since};
}

void RankPmi::ended(int rank) {
  if (server_ != nullptr) server_->ended(rank);
}

}  // namespace muster::agent::job
