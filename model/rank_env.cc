// The environment of a rank: which variables are exported, and those of each framework.
// Read exported_variables() and rank_variables() at the end first, then the put_*() functions, one for each framework.
#include "model/rank_env.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/strings.h"

namespace muster::model {
namespace {

using base::Environment;
using Variables = std::vector<std::pair<std::string, std::string>>;

// Variables of the launcher's login or desktop session. The log-in on the remote host sets its own.
constexpr auto kSessionNames =
    std::to_array<std::string_view>({"OLDPWD", "HOME", "USER", "LOGNAME", "SHELL", "MAIL", "HOSTNAME", "TMPDIR",
                                     "DISPLAY", "XAUTHORITY", "TERM", "INVOCATION_ID", "_HOROVOD_SECRET_KEY"});
constexpr auto kSessionPrefixes =
    std::to_array<std::string_view>({"BASH_FUNC_", "XDG_", "SSH_", "DBUS_", "WAYLAND_", "GRPC_", "SYSTEMD_"});

// GPU masks. They hold GPU numbers of this host, which mean other GPUs on other hosts. CUDA's mask has a constant of
// its own, because the names of some variables are a prefix and this mask's name.
constexpr auto kGpuMaskNames = std::to_array<std::string_view>(
    {"ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ZE_AFFINITY_MASK"});
constexpr std::string_view kCudaMask = "CUDA_VISIBLE_DEVICES";

// Variables in which a launcher describes one rank to itself. Settings that users make for all ranks (OMPI_MCA_btl,
// SLURM_JOB_ID, HOROVOD_CYCLE_TIME, …) are not among them.
constexpr auto kRankNames = std::to_array<std::string_view>(
    {// Muster, when hvdrun runs inside a rank
     "MUSTER_JOB_ID", "MUSTER_ATTEMPT", "MUSTER_GENERATION", "MUSTER_RANK", "MUSTER_SIZE", "MUSTER_LOCAL_RANK",
     "MUSTER_LOCAL_SIZE", "MUSTER_CROSS_RANK", "MUSTER_CROSS_SIZE", "MUSTER_NODE_RANK", "MUSTER_NNODES",
     "MUSTER_HOSTNAME", "MUSTER_SESSION_DIR", "MUSTER_RENDEZVOUS", "MUSTER_SECRET_FILE", "MUSTER_RANK_TABLE",
     // Horovod
     "HOROVOD_HOSTNAME", "HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE",
     "HOROVOD_CROSS_RANK", "HOROVOD_CROSS_SIZE", "HOROVOD_GLOO_RENDEZVOUS_ADDR", "HOROVOD_GLOO_RENDEZVOUS_PORT",
     "HOROVOD_ELASTIC",
     // torch
     "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK",
     "ROLE_WORLD_SIZE", "ROLE_NAME", "MASTER_ADDR", "MASTER_PORT",
     // DeepSpeed, JAX, TensorFlow, oneCCL
     "CROSS_RANK", "CROSS_SIZE", "LOCAL_SIZE", "JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID",
     "TF_CONFIG", "CCL_LOCAL_RANK", "CCL_LOCAL_SIZE",
     // Open MPI, hydra, MVAPICH
     "OMPI_UNIVERSE_SIZE", "OMPI_FILE_LOCATION", "OMPI_APP_CTX_NUM_PROCS", "OMPI_FIRST_RANKS", "OMPI_NUM_APP_CTX",
     "OMPI_COMMAND", "OMPI_ARGV", "PRTE_LAUNCHED", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "OMPI_MCA_pmix",
     "OMPI_MCA_initial_wdir", "MPIR_CVAR_CH3_INTERFACE_HOSTNAME", "GMPI_MAGIC",
     // srun; the allocation (SLURM_JOB_ID, SLURM_JOB_NODELIST, …) stays
     "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_NTASKS", "SLURM_NPROCS", "SLURM_GTIDS", "SLURM_TASK_PID",
     "SLURM_TASKS_PER_NODE", "SLURM_STEPID", "SLURM_DISTRIBUTION", "SLURM_LAUNCH_NODE_IPADDR", "SLURM_SRUN_COMM_HOST",
     "SLURM_SRUN_COMM_PORT",
     // ALPS, flux, dmlc
     "ALPS_APP_PE", "FLUX_TASK_RANK", "FLUX_TASK_LOCAL_ID", "FLUX_JOB_SIZE", "FLUX_JOB_NNODES", "DMLC_ROLE",
     "DMLC_NODE_HOST", "DMLC_NUM_WORKER", "DMLC_NUM_SERVER", "DMLC_TASK_ID", "DMLC_NUM_ATTEMPT", "DMLC_WORKER_ID"});
constexpr auto kRankPrefixes = std::to_array<std::string_view>(
    {"TORCHELASTIC_", "OMPI_COMM_WORLD_", "OMPI_MCA_orte_", "OMPI_MCA_ess", "OMPI_MCA_prte_", "PRTE_MCA_ess", "ORTE_",
     "PMIX_", "PMI_", "HYDI_", "MV2_COMM_WORLD_", "PALS_", "SLURM_STEP_", "SLURM_CPU_BIND", "SLURM_PMIX", "DMLC_PS_",
     "HYDRA_PROXY"});

template <std::size_t N>
bool contains(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

void put_numbers(Variables& variables, std::initializer_list<std::pair<const char*, int>> numbers) {
  for (const auto& [name, value] : numbers) variables.emplace_back(name, fmt::format("{}", value));
}

void put_muster(const RankEnvInput& input, Variables& variables) {
  const PlacedRank& rank = input.rank;
  variables.emplace_back("MUSTER_JOB_ID", input.job_id);
  put_numbers(variables, {{"MUSTER_ATTEMPT", input.attempt},
                          {"MUSTER_GENERATION", input.attempt},
                          {"MUSTER_RANK", rank.rank},
                          {"MUSTER_SIZE", input.size},
                          {"MUSTER_LOCAL_RANK", rank.local_rank},
                          {"MUSTER_LOCAL_SIZE", rank.local_size},
                          {"MUSTER_CROSS_RANK", rank.cross_rank},
                          {"MUSTER_CROSS_SIZE", rank.cross_size},
                          {"MUSTER_NODE_RANK", rank.host_index},
                          {"MUSTER_NNODES", input.nnodes}});
  variables.emplace_back("MUSTER_HOSTNAME", input.hostname);
  variables.emplace_back("MUSTER_SESSION_DIR", input.session_dir);
}

void put_horovod(const RankEnvInput& input, Variables& variables) {
  const PlacedRank& rank = input.rank;
  variables.emplace_back("HOROVOD_HOSTNAME", horovod_hostname(input.hostname));
  put_numbers(variables, {{"HOROVOD_RANK", rank.rank},
                          {"HOROVOD_SIZE", input.size},
                          {"HOROVOD_LOCAL_RANK", rank.local_rank},
                          {"HOROVOD_LOCAL_SIZE", rank.local_size},
                          {"HOROVOD_CROSS_RANK", rank.cross_rank},
                          {"HOROVOD_CROSS_SIZE", rank.cross_size}});
  if (input.is_live) variables.emplace_back("HOROVOD_ELASTIC", "1");
  variables.emplace_back("HOROVOD_CONTROLLER", "gloo");
  variables.emplace_back("HOROVOD_CPU_OPERATIONS", "gloo");
}

// The variables that torch's elastic agent sets for its workers. All of them are clients of the store at
// MASTER_ADDR:MASTER_PORT.
void put_torch_agent(const RankEnvInput& input, const Environment& user_set, Variables& variables) {
  variables.emplace_back("TORCHELASTIC_USE_AGENT_STORE", "True");
  put_numbers(variables,
              {{"TORCHELASTIC_RESTART_COUNT", input.restarts}, {"TORCHELASTIC_MAX_RESTARTS", input.max_restarts}});
  if (!user_set.get("TORCHELASTIC_RUN_ID")) variables.emplace_back("TORCHELASTIC_RUN_ID", input.job_id);
  if (!user_set.get("TORCHELASTIC_ERROR_FILE")) {
    variables.emplace_back("TORCHELASTIC_ERROR_FILE", torch_error_file(input.session_dir, input.rank.rank));
  }
  if (input.has_torch_watchdog) variables.emplace_back("TORCHELASTIC_TIMER_FILE", torch_timer_file(input.session_dir));
}

// Sets torchrun's options, for a rank that is torchrun itself and one of `size` nodes. It meets the others in the store
// that the agent on rank 0's host serves. No host waits for latecomers, because the launcher starts all of them.
// torchrun's workers serve the store of each attempt themselves, because torch since 2.5 would find the keys of an
// earlier attempt in a shared one.
void put_torchrun(const RankEnvInput& input, const Environment& user_set, Variables& variables) {
  const auto put = [&](const char* name, const std::string& value) {
    if (!user_set.get(name)) variables.emplace_back(name, value);
  };
  put("PET_NNODES", fmt::format("{}", input.size));
  put("PET_NPROC_PER_NODE", fmt::format("{}", input.torchrun_workers));
  put("PET_MAX_RESTARTS", "0");
  put("PET_MONITOR_INTERVAL", "0.1");  // seconds; torch 1.13 would notice the end of a worker only after 5
  put("PET_RDZV_BACKEND", "c10d");
  put("PET_RDZV_ENDPOINT", host_and_port(input.master_addr, input.master_port));
  put("PET_RDZV_ID", fmt::format("{}-{}", input.job_id, input.attempt));
  put("PET_RDZV_CONF", "is_host=0,join_timeout=600,last_call_timeout=2");
  if (!input.address.empty()) put("PET_LOCAL_ADDR", input.address);
  put("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1");
  // torchrun copies the file of the worker that failed first to its own.
  put("TORCHELASTIC_ERROR_FILE", torch_error_file(input.session_dir, input.rank.rank));
}

void put_torch(const RankEnvInput& input, const Environment& user_set, Variables& variables) {
  const PlacedRank& rank = input.rank;
  const bool has_roles = input.role_rank >= 0;
  put_numbers(variables, {{"RANK", rank.rank},
                          {"WORLD_SIZE", input.size},
                          {"LOCAL_RANK", rank.local_rank},
                          {"LOCAL_WORLD_SIZE", rank.local_size},
                          {"GROUP_RANK", rank.host_index},
                          {"GROUP_WORLD_SIZE", input.nnodes},
                          {"ROLE_RANK", has_roles ? input.role_rank : rank.rank},
                          {"ROLE_WORLD_SIZE", has_roles ? input.role_size : input.size}});
  variables.emplace_back("ROLE_NAME", input.role);
  if (input.torch_agent_store) put_torch_agent(input, user_set, variables);
  if (input.is_torchrun) put_torchrun(input, user_set, variables);
  if (!input.master_addr.empty()) variables.emplace_back("MASTER_ADDR", input.master_addr);
  if (input.master_port > 0) put_numbers(variables, {{"MASTER_PORT", input.master_port}});
}

// The variables that DeepSpeed's launcher sets for its workers beyond torch's names.
void put_deepspeed(const RankEnvInput& input, Variables& variables) {
  put_numbers(variables, {{"CROSS_RANK", input.rank.cross_rank},
                          {"CROSS_SIZE", input.rank.cross_size},
                          {"LOCAL_SIZE", input.rank.local_size}});
}

// Sets the variables for jax.distributed.initialize(). Rank 0 serves JAX's coordinator, just as it serves torch's store
// with env://. One port is enough for both. If the agent serves torch's store, the agent holds that port, so set
// nothing.
// JAX itself reads only the address. It learns its rank from Open MPI's variables if it finds the variable of mpirun's
// daemon (jax 0.10, _src/clusters/ompi_cluster.py). Set the daemon's variable only with --runtime jax, because Open
// MPI's library would look for the daemon.
void put_jax(const RankEnvInput& input, Variables& variables) {
  const bool is_served = input.torch_agent_store || input.is_torchrun;
  if (is_served || input.master_addr.empty() || input.master_port == 0) return;
  variables.emplace_back("JAX_COORDINATOR_ADDRESS", host_and_port(input.master_addr, input.master_port));
  put_numbers(variables, {{"JAX_NUM_PROCESSES", input.size}, {"JAX_PROCESS_ID", input.rank.rank}});
  if (input.runtime != Runtime::kJax) return;
  variables.emplace_back("OMPI_MCA_orte_hnp_uri", "muster");
  put_numbers(variables, {{"OMPI_COMM_WORLD_RANK", input.rank.rank},
                          {"OMPI_COMM_WORLD_SIZE", input.size},
                          {"OMPI_COMM_WORLD_LOCAL_RANK", input.rank.local_rank}});
}

// Sets the variables for tf.distribute.MultiWorkerMirroredStrategy. Addresses contain nothing that JSON must escape.
void put_tensorflow(const RankEnvInput& input, const Environment& user_set, Variables& variables) {
  if (user_set.get("TF_CONFIG") || input.tensorflow_workers.empty()) return;
  variables.emplace_back(
      "TF_CONFIG", fmt::format(R"({{"cluster": {{"worker": ["{}"]}}, "task": {{"type": "worker", "index": {}}}}})",
                               base::join(input.tensorflow_workers, R"(", ")"), input.rank.rank));
}

// Sets oneCCL's launcher to "none", so that oneCCL reads our local ranks, not those of Intel MPI's launcher.
void put_one_ccl(const RankEnvInput& input, const Environment& user_set, Variables& variables) {
  if (user_set.get("CCL_PROCESS_LAUNCHER").value_or("none") != "none") return;
  variables.emplace_back("CCL_PROCESS_LAUNCHER", "none");
  put_numbers(variables, {{"CCL_LOCAL_RANK", input.rank.local_rank}, {"CCL_LOCAL_SIZE", input.rank.local_size}});
}

// Sets names that scripts written for mpirun read to pick a GPU or a shard. Open MPI's own library does not read them.
// Under another launcher it looks for a PMIx server and finds none. MPI_Init then makes a world of one, with or without
// these names.
// PMI_RANK and PMI_SIZE (and hydra's MPI_LOCALRANKID) are not set here. They are one half of a protocol whose other
// half is PMI_FD or PMI_PORT. With the first half alone, MPICH makes a world of one that contradicts it. And scripts
// that find PMI_RANK assume that MPI_Init works. So only the code that serves PMI to the rank sets them.
void put_open_mpi(const RankEnvInput& input, Variables& variables) {
  const PlacedRank& rank = input.rank;
  put_numbers(variables, {{"OMPI_COMM_WORLD_RANK", rank.rank},
                          {"OMPI_COMM_WORLD_SIZE", input.size},
                          {"OMPI_COMM_WORLD_LOCAL_RANK", rank.local_rank},
                          {"OMPI_COMM_WORLD_LOCAL_SIZE", rank.local_size},
                          {"OMPI_COMM_WORLD_NODE_RANK", rank.local_rank}});
}

bool spans_hosts(const RankEnvInput& input) {
  return input.nnodes > 1 || input.has_peers_elsewhere;
}

// Names one interface for MPICH's UCX, which assumes that every interface of a host reaches the other hosts. The agent
// removes this variable on a host with more than Ethernet (agent/job/rank_pmi.h).
void put_ucx(const RankEnvInput& input, const Environment& user_set, Variables& variables) {
  const char* const name = "UCX_NET_DEVICES";
  if (spans_hosts(input) && !input.interface.empty() && !user_set.get(name)) {
    variables.emplace_back(name, input.interface);
  }
}

// Names one interface for Open MPI. It would try all, and wait for ever on one that does not reach the other hosts.
void put_open_mpi_network(const RankEnvInput& input, const Environment& user_set, Variables& variables) {
  const char* const name = "OMPI_MCA_btl_tcp_if_include";
  const bool is_chosen = user_set.get(name) || user_set.get("OMPI_MCA_btl_tcp_if_exclude");
  if (spans_hosts(input) && !input.interface.empty() && !is_chosen) variables.emplace_back(name, input.interface);
}

// Sets variables that the user's own setting overrides.
void put_defaults(const RankEnvInput& input, const Environment& user_set, Variables& variables) {
  const auto put = [&](const char* name, const std::string& value) {
    if (!user_set.get(name)) variables.emplace_back(name, value);
  };
  put("PYTHONUNBUFFERED", "1");
  if (!input.interface.empty()) {
    for (const char* name : {"GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "HOROVOD_GLOO_IFACE", "TP_SOCKET_IFNAME"}) {
      put(name, input.interface);
    }
  }
  if (input.torch_agent_store) {
    put("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
    put("NCCL_ASYNC_ERROR_HANDLING", "1");  // the name before torch 2.2
  }
  // torchrun divides the cores of a host among its workers, so leave the number to it.
  if (input.omp_num_threads > 0 && !input.is_torchrun) put("OMP_NUM_THREADS", fmt::format("{}", input.omp_num_threads));
}

// Adds each folder once, because a rank may start hvdrun itself.
void put_python_folders(const std::vector<std::string>& folders, bool ours_first, Environment& environment) {
  if (folders.empty()) return;
  constexpr std::string_view kVariable = "PYTHONPATH";
  std::string path(environment.get(kVariable).value_or(""));
  for (const std::string& folder : folders) {
    const auto known = base::split(path, ':');
    if (std::ranges::find(known, folder) != known.end()) continue;
    path += (path.empty() ? "" : ":") + folder;
  }
  if (ours_first) {
    const std::string first = folders.back() + "_first:";
    if (!path.starts_with(first)) path = first + path;
  }
  environment.set(kVariable, path);
}

}  // namespace

std::string torch_error_file(const std::string& session_dir, int rank) {
  return fmt::format("{}/torch-error.{}.json", session_dir, rank);
}

std::string torch_timer_file(const std::string& session_dir) {
  return session_dir + "/torch-timers";
}

std::string host_and_port(const std::string& address, int port) {
  const bool is_v6 = address.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", is_v6 ? "[" : "", address, is_v6 ? "]" : "", port);
}

std::string horovod_hostname(std::string name) {
  std::ranges::replace_if(
      name, [](char c) { return c == '/' || c == ':'; }, '-');
  return name;
}

bool is_rank_variable(std::string_view name) {
  return contains(kRankNames, name) || base::starts_with_any(name, kRankPrefixes);
}

bool is_never_exported(std::string_view name, bool local) {
  if (contains(kSessionNames, name) || base::starts_with_any(name, kSessionPrefixes)) return true;
  if (!local && (name.ends_with(kCudaMask) || contains(kGpuMaskNames, name))) return true;
  return is_rank_variable(name);
}

Variables exported_variables(const Environment& launcher, const ExportPolicy& policy, bool local) {
  Environment result;
  if (!policy.only_named) {
    for (const auto& [name, value] : launcher.entries()) {
      if (!is_never_exported(name, local)) result.set(name, value);
    }
  }
  for (const std::string& named : policy.named) {
    const auto equals = named.find('=');
    if (equals != std::string::npos) {
      result.set(std::string_view(named).substr(0, equals), std::string_view(named).substr(equals + 1));
    } else if (const auto value = launcher.get(named)) {
      result.set(named, *value);
    }
  }
  // With MUSTER_HOROVOD=muster, the folder "…_first" makes Muster's `horovod` win, whatever else is on the path.
  put_python_folders(policy.python_folders, result.get("MUSTER_HOROVOD") == "muster", result);
  return result.entries();
}

Variables rank_variables(const RankEnvInput& input, const Environment& user_set) {
  Variables variables;
  put_muster(input, variables);
  const auto is_served = [&](Runtime one) { return serves(input.runtime, one); };
  if (is_served(Runtime::kHorovod)) put_horovod(input, variables);
  if (is_served(Runtime::kTorch)) {
    put_torch(input, user_set, variables);
    put_deepspeed(input, variables);
    put_one_ccl(input, user_set, variables);
  }
  if (is_served(Runtime::kJax)) put_jax(input, variables);
  if (is_served(Runtime::kTensorflow)) put_tensorflow(input, user_set, variables);
  if (is_served(Runtime::kMpi)) {
    put_open_mpi(input, variables);
    put_ucx(input, user_set, variables);
    put_open_mpi_network(input, user_set, variables);
  }
  put_defaults(input, user_set, variables);
  return variables;
}

}  // namespace muster::model
