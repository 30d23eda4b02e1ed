#include "agent/job/formed_world.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/strings.h"

namespace muster::agent::inline job {
namespace {

constexpr long kMostWorldRanks = 1 << 24;
constexpr std::string_view kThreadOfWorld = "muster of ";  // followed by the size (collectives/join/service.h)

struct KnownLauncher {
  std::string_view word;  // file name of the program, or a module of Python
  std::string_view name;
};
constexpr std::array kLaunchers{
    KnownLauncher{"torchrun", "torchrun"},
    KnownLauncher{"torch.distributed.run", "torchrun"},
    KnownLauncher{"torch.distributed.launch", "torchrun"},
    KnownLauncher{"accelerate", "accelerate"},
    KnownLauncher{"accelerate-launch", "accelerate"},
    KnownLauncher{"mpirun", "mpirun"},
    KnownLauncher{"mpiexec", "mpirun"},
    KnownLauncher{"mpirun.openmpi", "mpirun"},
    KnownLauncher{"mpiexec.openmpi", "mpirun"},
    KnownLauncher{"mpirun.mpich", "mpirun"},
    KnownLauncher{"mpiexec.mpich", "mpirun"},
    KnownLauncher{"mpiexec.hydra", "mpirun"},
    KnownLauncher{"orterun", "mpirun"},
    KnownLauncher{"prterun", "mpirun"},
    KnownLauncher{"horovodrun", "horovodrun"},
};

std::string_view file_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

std::string known_launcher(std::string_view word) {
  const auto* const found = std::ranges::find(kLaunchers, word, &KnownLauncher::word);
  return found == kLaunchers.end() ? "" : std::string(found->name);
}

std::optional<int> number_of(const ProcessFacts& process, const char* name) {
  const auto found = process.variables.find(name);
  if (found == process.variables.end()) return std::nullopt;
  const auto number = base::parse_decimal(found->second, kMostWorldRanks);
  if (!number || *number < 1) return std::nullopt;
  return static_cast<int>(*number);
}

std::optional<FormedGroup> group_of_libmuster(const ProcessFacts& process) {
  for (const std::string_view thread : process.threads) {
    if (!thread.starts_with(kThreadOfWorld)) continue;
    const auto size = base::parse_decimal(thread.substr(kThreadOfWorld.size()), kMostWorldRanks);
    if (!size || *size < 1) continue;
    FormedGroup group{.size = static_cast<int>(*size), .source = "libmuster"};
    if (process.variables.contains("MUSTER_RENDEZVOUS")) {
      group.detail = "MUSTER_RENDEZVOUS";
    } else if (!process.variables.contains("MUSTER_SESSION_DIR")) {
      group.detail = "no MUSTER_SESSION_DIR";
    } else if (process.variables.contains("MUSTER_SIZE")) {
      group.detail = "MUSTER_SIZE=" + base::printable(base::valid_utf8(process.variables.at("MUSTER_SIZE")));
    }
    return group;
  }
  return std::nullopt;
}

// torchrun tells its workers how many torchruns share their world. A torchrun is one rank of the job.
std::optional<FormedGroup> group_of_torchrun(const ProcessFacts& process) {
  const auto torchruns = number_of(process, "GROUP_WORLD_SIZE");
  if (!torchruns || !process.variables.contains("TORCHELASTIC_RUN_ID")) return std::nullopt;
  return FormedGroup{.size = *torchruns, .source = process.launcher, .detail = process.launcher};
}

// A launcher inside one rank whose world is as large as the job, or has one process. Other sizes are wanted: a job may
// start independent programs of several processes.
std::optional<FormedGroup> group_of_launcher(const ProcessFacts& process, int job_size,
                                             std::initializer_list<const char*> names) {
  for (const char* const name : names) {
    const auto size = number_of(process, name);
    if (size && (*size == 1 || *size == job_size)) {
      return FormedGroup{.size = 1, .source = process.launcher, .detail = process.launcher};
    }
  }
  return std::nullopt;
}

constexpr std::string_view kUcxTransport = "/ucx/libuct_";  // loaded when UCX is initialised

bool has_any(std::string_view text, std::initializer_list<std::string_view> parts) {
  return std::ranges::any_of(parts, [&](std::string_view part) { return text.find(part) != std::string_view::npos; });
}

}  // namespace

// Looks at the program, and at the script or module of an interpreter.
std::string launcher_of(const std::vector<std::string>& arguments) {
  for (std::size_t i = 0; i < std::min<std::size_t>(arguments.size(), 2); ++i) {
    if (std::string name = known_launcher(file_name(arguments[i])); !name.empty()) return name;
  }
  const auto module = std::ranges::find(arguments, "-m");
  if (arguments.empty() || !file_name(arguments[0]).starts_with("python") || module == arguments.end()) return "";
  const bool is_early = module - arguments.begin() <= 3;  // later ones are the script's own
  return is_early && module + 1 != arguments.end() ? known_launcher(*(module + 1)) : "";
}

bool maps_begun_open_mpi(std::string_view maps) {
  return has_any(maps, {"/libmpi.so.40"}) && has_any(maps, {"/mca_pml_", "/sm_segment.", kUcxTransport});
}

bool maps_begun_mpich(std::string_view maps) {
  return has_any(maps, {"/libmpich.so.12", "/libmpi.so.12"}) && has_any(maps, {"/mpich_shm_", kUcxTransport});
}

std::optional<FormedGroup> group_of(const ProcessFacts& process, int job_size, bool has_contact) {
  if (auto group = group_of_libmuster(process)) return group;
  if (process.launcher == "torchrun" || process.launcher == "accelerate") return group_of_torchrun(process);
  if (process.launcher == "mpirun") return group_of_launcher(process, job_size, {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"});
  if (process.launcher == "horovodrun") return group_of_launcher(process, job_size, {"HOROVOD_SIZE"});
  if (has_contact) return std::nullopt;
  const auto lacks = [&](const char* name) { return !process.variables.contains(name); };
  if (process.has_begun_open_mpi && lacks("PMIX_RANK")) {
    return FormedGroup{.size = 1, .source = "MPI", .detail = "no PMIX_RANK"};
  }
  // An MPICH that uses PMIx has had contact.
  if (process.has_begun_mpich && lacks("PMI_FD") && lacks("PMI_PORT")) {
    return FormedGroup{.size = 1, .source = "MPI", .detail = "no PMI_FD"};
  }
  return std::nullopt;
}

std::optional<FormedGroup> wrong_group(const std::vector<FormedGroup>& groups, int job_size) {
  if (groups.empty() || std::ranges::find(groups, job_size, &FormedGroup::size) != groups.end()) return std::nullopt;
  return groups.front();
}

}  // namespace muster::agent::job
