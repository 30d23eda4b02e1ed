// The whole of RankPmix, an adapter between the launcher's messages and pmix::Service.
// Read open() first; its handlers show what the service reports. Then read plan(), spawn() and spawn_answered().

#include "agent/job/rank_pmix.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "agent/job/rank_pmi.h"
#include "agent/pmix/find_library.h"
#include "agent/pmix/rank_settings.h"
#include "base/strings.h"
#include "proto/convert.h"
#include "proto/world_bytes.h"

namespace muster::agent::inline job {
namespace {

// True if there are more ranks than processors that they may use. Such ranks should yield their processor while they
// wait.
bool is_crowded(int ranks) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  return ::sched_getaffinity(0, sizeof allowed, &allowed) == 0 && ranks > CPU_COUNT(&allowed);
}

base::Environment environment_of(const std::vector<std::string>& entries) {
  base::Environment environment;
  for (const std::string& entry : entries) {
    const auto equals = entry.find('=');
    if (equals == std::string::npos) continue;
    environment.set(std::string_view(entry).substr(0, equals), std::string_view(entry).substr(equals + 1));
  }
  return environment;
}

pmix::Placement placement_of(const v1::World& world) {
  pmix::Placement placement;
  placement.universe = world.universe();
  for (const v1::WorldHost& host : world.hosts()) {
    placement.hosts.push_back({host.name(), {host.ranks().begin(), host.ranks().end()}});
  }
  for (const v1::WorldProgram& program : world.programs()) placement.programs.push_back(program.ranks());
  return placement;
}

// True if the text contains words that an Open MPI program writes when it cannot start.
bool is_of_open_mpi(const std::string& text) {
  return std::ranges::any_of(std::to_array<const char*>({"orte_init", "ompi_mpi_init", "pmix", "PMIX", "OPAL ERROR"}),
                             [&](const char* word) { return text.find(word) != std::string::npos; });
}

}  // namespace

void RankPmix::open(const v1::Launch& launch, rendezvous::HorovodKeys* keys, const std::string& session_dir,
                    bool verbose) {
  is_of_mpi_ = !launch.world().empty();
  if (!is_of_mpi_ || keys == nullptr) return;
  const auto world = proto::world_of_bytes(launch.world());
  if (!world) return events_.on_problem("the launcher's list of hosts cannot be read");
  auto opened = pmix::Service::open(
      loop_, *keys,
      {.nspace = world->name(),
       .session_dir = session_dir,
       .placement = placement_of(*world),
       .host = launch.host(),
       .is_crowded = is_crowded(launch.ranks_size()),
       .has_rdma = host_has_rdma(),
       .verbose = verbose},
      {.on_connected =
           [this](int rank) {
             connected_.insert(rank);
             ends_.connected(rank);
           },
       .on_finalized = [this](int rank) { ends_.finalized(rank); },
       .on_aborted = [this](int rank, int code) { ends_.aborted(rank, code); },
       .on_spawn = [this](const pmix::SpawnWanted& wanted) { spawn(wanted); },
       .on_world_added =
           [this](int first, const std::string& error) {
             v1::WorldAdded added;
             added.set_first(first);
             added.set_error(error);
             events_.on_world_added(std::move(added));
           },
       .on_text = [this](int rank, const std::string& text) { write_to_stderr(rank, text); },
       .on_problem = events_.on_problem,
       .on_lost = [this](const std::vector<int>&, const std::string& why) { events_.on_lost(why); }});
  if (opened.ok()) {
    service_ = std::move(*opened);
  } else {
    events_.on_problem("programs of Open MPI will not start: " + opened.status().message());
  }
}

void RankPmix::spawn(const pmix::SpawnWanted& wanted) {
  v1::SpawnRequest request;
  request.set_id(wanted.id);
  request.set_rank(wanted.rank);
  for (const pmix::SpawnProgram& program : wanted.programs) {
    v1::SpawnProgram& to = *request.add_programs();
    to.mutable_command()->Add(program.command.begin(), program.command.end());
    to.set_ranks(program.ranks);
    // Open MPI passes on all its settings. Remove those that plan() made, because they may differ on another host.
    base::Environment environment = environment_of(program.environment);
    for (const std::string& name : names_) environment.unset(name);
    proto::set_environment(environment.entries(), *to.mutable_environment());
    to.set_workdir(program.workdir);
    for (const std::string& host : program.hosts) to.add_hosts(base::printable(host));
  }
  spawns_[wanted.id] = wanted;
  events_.on_spawn(std::move(request));
}

void RankPmix::spawn_answered(const v1::SpawnAnswer& answer) {
  const auto asked = spawns_.extract(answer.id());
  if (asked.empty() || !service_) return;
  if (answer.world().empty()) {
    const int rank = asked.mapped().rank;
    ends_.spawn_refused(rank);
    const char* then = service_->is_alone(rank) ? "" : "; the job ends, because other ranks may wait in the same call";
    events_.on_problem(fmt::format("rank {}: MPI_Comm_spawn failed: {}{}", rank, answer.error(), then));
  }
  service_->spawn_done(asked.mapped(), answer.world());
}

void RankPmix::add_world(const v1::AddWorld& world) {
  v1::World ranks;
  v1::WorldAdded refused;
  refused.set_first(world.first());
  if (!service_) {
    refused.set_error("PMIx is not served here");
  } else if (!ranks.ParseFromString(world.launch().world())) {
    refused.set_error("the launcher's list of ranks cannot be read");
  }
  if (!refused.error().empty()) return events_.on_world_added(std::move(refused));
  service_->add_world(
      {.nspace = ranks.name(), .first = world.first(), .spawner = world.spawner(), .placement = placement_of(ranks)});
}

void RankPmix::plan(SpawnRequest& request) {
  if (!is_of_mpi_) return;
  base::Environment environment = environment_of(request.env);
  library_path_ = environment.get("LD_LIBRARY_PATH").value_or("");
  const base::Environment before = environment;
  if (service_) {
    service_->set_variables(request.rank, environment);
  } else {
    pmix::set_without_server(environment);
  }
  request.env = environment.to_strings();
  for (const auto& [name, value] : environment.entries()) {
    if (before.get(name) != value) names_.insert(name);
  }
}

// Writes to the rank's own stderr. If the rank is gone, or if its stderr does not take all bytes at once, reports the
// text as a notice.
void RankPmix::write_to_stderr(int rank, const std::string& text) {
  const pid_t pid = events_.pid_of(rank);
  if (pid > 0) {
    const std::string path = fmt::format("/proc/{}/fd/2", pid);
    const base::UniqueFd fd(::open(path.c_str(), O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    if (fd.valid() && ::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size())) return;
  }
  events_.on_problem(fmt::format("rank {}: {}", rank, base::trim(text)));
}

std::optional<Awaited> RankPmix::awaited(int rank) const {
  const auto since = service_ == nullptr ? std::nullopt : service_->waits_since(rank);
  if (!since) return std::nullopt;
  return Awaited{.what = "the PMIx fence", .since = *since};
}

void RankPmix::explain(int rank, const std::string& stderr_tail) {
  if (!service_ || has_explained_ || connected_.contains(rank) || !is_of_open_mpi(stderr_tail)) return;
  if (pmix::has_libpmix(library_path_)) return;
  has_explained_ = true;
  events_.on_problem(
      fmt::format("rank {} is a program of Open MPI, but this host has no libpmix.so.2, by which its ranks "
                  "find each other: {}",
                  rank, pmix::kHowToInstall));
}

}  // namespace muster::agent::job
