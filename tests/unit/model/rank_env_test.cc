#include "model/rank_env.h"

#include <algorithm>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::model::rank_env_test {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;
using Variables = std::vector<std::pair<std::string, std::string>>;

TEST(NeverExported, HoldsTheContractsList) {
  for (const char* name :
       {"BASH_FUNC_module%%", "OLDPWD", "HOME", "USER", "LOGNAME", "SHELL", "MAIL", "HOSTNAME", "TMPDIR",
        "XDG_RUNTIME_DIR", "SSH_AUTH_SOCK", "SSH_CONNECTION", "DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY",
        "XAUTHORITY", "TERM", "GRPC_VERBOSITY", "SYSTEMD_EXEC_PID", "INVOCATION_ID",
        // rank variables of every launcher
        "HOROVOD_RANK", "HOROVOD_GLOO_RENDEZVOUS_ADDR", "RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR",
        "TORCHELASTIC_RUN_ID", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMIX_SERVER_URI4", "PMI_RANK", "PMI_FD",
        "PMIX_GDS_MODULE", "PMIX_MCA_psec", "HYDI_CONTROL_FD", "ORTE_SCHIZO_DETECTION", "OMPI_MCA_pmix",
        "OMPI_MCA_orte_launch", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_initial_wdir", "MPIR_CVAR_CH3_INTERFACE_HOSTNAME",
        "SLURM_PMIX_MAPPING_SERV", "SLURM_PMIXP_ABORT_AGENT_PORT", "MPI_LOCALRANKID", "PALS_RANKID", "SLURM_PROCID",
        "SLURM_STEP_ID", "SLURM_NTASKS", "FLUX_TASK_RANK", "DMLC_NUM_WORKER", "MV2_COMM_WORLD_RANK", "MUSTER_RANK",
        "MUSTER_SESSION_DIR"}) {
    EXPECT_TRUE(is_never_exported(name, false)) << name;
    EXPECT_TRUE(is_never_exported(name, true)) << name;
  }
}

TEST(NeverExported, LeavesWhatUsersSet) {
  for (const char* name : {"PATH",
                           "LD_LIBRARY_PATH",
                           "PYTHONPATH",
                           "VIRTUAL_ENV",
                           "CONDA_PREFIX",
                           "LANG",
                           "PWD",
                           "OMP_NUM_THREADS",
                           "NCCL_DEBUG",
                           "NCCL_SOCKET_IFNAME",
                           "HOROVOD_CYCLE_TIME",
                           "HOROVOD_LOG_LEVEL",
                           "OMPI_MCA_btl",
                           "OMPI_MCA_btl_tcp_if_include",
                           "OMPI_MCA_pml",
                           "OMPI_MCA_coll_tuned_use_dynamic_rules",
                           "OMPI_MCA_pmix_base_async_modex",
                           "MPIR_CVAR_DEBUG_SUMMARY",
                           "SLURM_JOB_ID",
                           "SLURM_JOB_NODELIST",
                           "TERMINFO",
                           "USERNAME",
                           "MY_RANK",
                           "HOMEBREW_PREFIX",
                           "_",
                           ""}) {
    EXPECT_FALSE(is_never_exported(name, false)) << name;
  }
}

TEST(NeverExported, GpuMasksTravelOnlyToThisHost) {
  for (const char* name : {"CUDA_VISIBLE_DEVICES", "NOT_CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
                           "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ZE_AFFINITY_MASK"}) {
    EXPECT_TRUE(is_never_exported(name, false)) << name;
    EXPECT_FALSE(is_never_exported(name, true)) << name;
  }
  // How they are read is meant for all hosts.
  for (const char* name : {"CUDA_DEVICE_ORDER", "ZE_FLAT_DEVICE_HIERARCHY"}) {
    EXPECT_FALSE(is_never_exported(name, false)) << name;
  }
}

base::Environment launcher() {
  base::Environment environment;
  environment.set("PATH", "/bin");
  environment.set("HOME", "/home/al");
  environment.set("CUDA_VISIBLE_DEVICES", "1");
  environment.set("EMPTY", "");
  environment.set("RANK", "7");
  return environment;
}

TEST(ExportedVariables, KeepTheOrderAndLeaveTheRest) {
  EXPECT_THAT(exported_variables(launcher(), {}, false), ElementsAre(Pair("PATH", "/bin"), Pair("EMPTY", "")));
  EXPECT_THAT(exported_variables(launcher(), {}, true),
              ElementsAre(Pair("PATH", "/bin"), Pair("CUDA_VISIBLE_DEVICES", "1"), Pair("EMPTY", "")));
}

TEST(ExportedVariables, NamedOnesTravelAnyway) {
  const ExportPolicy policy{.named = {"HOME", "NEW=a=b", "PATH=/x", "UNSET", "NONE=", "CUDA_VISIBLE_DEVICES"}};
  EXPECT_THAT(exported_variables(launcher(), policy, false),
              ElementsAre(Pair("PATH", "/x"), Pair("EMPTY", ""), Pair("HOME", "/home/al"), Pair("NEW", "a=b"),
                          Pair("NONE", ""), Pair("CUDA_VISIBLE_DEVICES", "1")));
}

TEST(ExportedVariables, OnlyNamed) {
  EXPECT_THAT(exported_variables(launcher(), {.named = {"PATH", "PATH=/y"}, .only_named = true}, true),
              ElementsAre(Pair("PATH", "/y")));
  EXPECT_THAT(exported_variables(launcher(), {.named = {}, .only_named = true}, true), ElementsAre());
}

TEST(ExportedVariables, PythonFoldersComeBehindWhatTheUserHasThere) {
  const auto path_of = [](const std::string& own, ExportPolicy policy) {
    base::Environment environment;
    environment.set("PYTHONPATH", own);
    policy.python_folders = {"/m", "/m/dropin"};
    return exported_variables(environment, policy, false);
  };
  EXPECT_THAT(path_of("/mine:", {}), ElementsAre(Pair("PYTHONPATH", "/mine::/m:/m/dropin")));
  EXPECT_THAT(path_of("", {}), ElementsAre(Pair("PYTHONPATH", "/m:/m/dropin")));
  EXPECT_THAT(path_of("/m/dropin:/a", {}), ElementsAre(Pair("PYTHONPATH", "/m/dropin:/a:/m")));
  EXPECT_THAT(path_of("/a", {.only_named = true}), ElementsAre(Pair("PYTHONPATH", "/m:/m/dropin")));
  EXPECT_THAT(path_of("/a", {.named = {"PYTHONPATH=/b"}}), ElementsAre(Pair("PYTHONPATH", "/b:/m:/m/dropin")));
}

TEST(ExportedVariables, MustersHorovodComesFirstWhenItIsAskedFor) {
  const auto path_of = [](const std::string& own, const std::string& wish) {
    base::Environment environment;
    environment.set("PYTHONPATH", own);
    const ExportPolicy policy{.named = {"MUSTER_HOROVOD=" + wish}, .python_folders = {"/m", "/m/dropin"}};
    return exported_variables(environment, policy, false).front().second;
  };
  EXPECT_EQ(path_of("/mine", "muster"), "/m/dropin_first:/mine:/m:/m/dropin");
  EXPECT_EQ(path_of("", "muster"), "/m/dropin_first:/m:/m/dropin");
  EXPECT_EQ(path_of("/m/dropin_first:/mine:/m:/m/dropin", "muster"), "/m/dropin_first:/mine:/m:/m/dropin");
  EXPECT_EQ(path_of("/mine", "auto"), "/mine:/m:/m/dropin");
  EXPECT_EQ(path_of("/mine", "installed"), "/mine:/m:/m/dropin");
}

RankEnvInput input() {
  RankEnvInput result;
  result.job_id = "abcdefgh";
  result.attempt = 1;
  result.restarts = 1;
  result.rank = {.rank = 5, .local_rank = 1, .local_size = 2, .cross_rank = 2, .cross_size = 3, .host_index = 4};
  result.size = 9;
  result.nnodes = 6;
  result.hostname = "fe80::1";
  result.session_dir = "/tmp/muster-7/abcdefgh-4";
  result.master_addr = "10.0.0.1";
  result.master_port = 40000;
  result.interface = "ib0";
  result.omp_num_threads = 12;
  return result;
}

TEST(RankVariables, AreExactlyThese) {
  const std::map<std::string, std::string> expected = {{"MUSTER_JOB_ID", "abcdefgh"},
                                                       {"MUSTER_ATTEMPT", "1"},
                                                       {"MUSTER_GENERATION", "1"},
                                                       {"MUSTER_RANK", "5"},
                                                       {"MUSTER_SIZE", "9"},
                                                       {"MUSTER_LOCAL_RANK", "1"},
                                                       {"MUSTER_LOCAL_SIZE", "2"},
                                                       {"MUSTER_CROSS_RANK", "2"},
                                                       {"MUSTER_CROSS_SIZE", "3"},
                                                       {"MUSTER_NODE_RANK", "4"},
                                                       {"MUSTER_NNODES", "6"},
                                                       {"MUSTER_HOSTNAME", "fe80::1"},
                                                       {"MUSTER_SESSION_DIR", "/tmp/muster-7/abcdefgh-4"},
                                                       {"HOROVOD_HOSTNAME", "fe80--1"},
                                                       {"HOROVOD_RANK", "5"},
                                                       {"HOROVOD_SIZE", "9"},
                                                       {"HOROVOD_LOCAL_RANK", "1"},
                                                       {"HOROVOD_LOCAL_SIZE", "2"},
                                                       {"HOROVOD_CROSS_RANK", "2"},
                                                       {"HOROVOD_CROSS_SIZE", "3"},
                                                       {"HOROVOD_CONTROLLER", "gloo"},
                                                       {"HOROVOD_CPU_OPERATIONS", "gloo"},
                                                       {"RANK", "5"},
                                                       {"WORLD_SIZE", "9"},
                                                       {"LOCAL_RANK", "1"},
                                                       {"LOCAL_WORLD_SIZE", "2"},
                                                       {"GROUP_RANK", "4"},
                                                       {"GROUP_WORLD_SIZE", "6"},
                                                       {"ROLE_RANK", "5"},
                                                       {"ROLE_WORLD_SIZE", "9"},
                                                       {"ROLE_NAME", "default"},
                                                       {"MASTER_ADDR", "10.0.0.1"},
                                                       {"MASTER_PORT", "40000"},
                                                       {"CROSS_RANK", "2"},
                                                       {"CROSS_SIZE", "3"},
                                                       {"LOCAL_SIZE", "2"},
                                                       {"CCL_PROCESS_LAUNCHER", "none"},
                                                       {"CCL_LOCAL_RANK", "1"},
                                                       {"CCL_LOCAL_SIZE", "2"},
                                                       {"JAX_COORDINATOR_ADDRESS", "10.0.0.1:40000"},
                                                       {"JAX_NUM_PROCESSES", "9"},
                                                       {"JAX_PROCESS_ID", "5"},
                                                       {"OMPI_COMM_WORLD_RANK", "5"},
                                                       {"OMPI_COMM_WORLD_SIZE", "9"},
                                                       {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                                       {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                                       {"OMPI_COMM_WORLD_NODE_RANK", "1"},
                                                       {"UCX_NET_DEVICES", "ib0"},
                                                       {"OMPI_MCA_btl_tcp_if_include", "ib0"},
                                                       {"PYTHONUNBUFFERED", "1"},
                                                       {"GLOO_SOCKET_IFNAME", "ib0"},
                                                       {"NCCL_SOCKET_IFNAME", "ib0"},
                                                       {"HOROVOD_GLOO_IFACE", "ib0"},
                                                       {"TP_SOCKET_IFNAME", "ib0"},
                                                       {"OMP_NUM_THREADS", "12"}};
  const Variables given = rank_variables(input(), {});
  EXPECT_EQ((std::map<std::string, std::string>(given.begin(), given.end())), expected);
  EXPECT_EQ(given.size(), expected.size()) << "a name is given twice";
}

TEST(RankVariables, LeaveOutWhatIsNotKnown) {
  RankEnvInput bare = input();
  bare.master_addr.clear();
  bare.master_port = 0;
  bare.interface.clear();
  bare.omp_num_threads = 0;
  for (const auto& [name, value] : rank_variables(bare, {})) {
    EXPECT_FALSE(name == "MASTER_ADDR" || name == "MASTER_PORT" || name.ends_with("IFNAME") ||
                 name.ends_with("IFACE") || name == "OMP_NUM_THREADS")
        << name;
  }
}

TEST(RankVariables, DoNotReplaceWhatTheUserSet) {
  base::Environment user;
  const std::set<std::string> kept = {"GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "HOROVOD_GLOO_IFACE",
                                      "TP_SOCKET_IFNAME",   "OMP_NUM_THREADS",    "PYTHONUNBUFFERED"};
  for (const std::string& name : kept) user.set(name, "user's");
  user.set("RANK", "99");  // but who a rank is, is not the user's to say
  bool has_rank = false;
  for (const auto& [name, value] : rank_variables(input(), user)) {
    EXPECT_FALSE(kept.contains(name)) << name;
    has_rank = has_rank || (name == "RANK" && value == "5");
  }
  EXPECT_TRUE(has_rank);
}

std::set<std::string> names_with(Runtime runtime) {
  RankEnvInput one = input();
  one.runtime = runtime;
  one.tensorflow_workers = {"10.0.0.1:7000", "10.0.0.2:7001"};
  std::set<std::string> names;
  for (const auto& [name, value] : rank_variables(one, {})) {
    if (!name.starts_with("MUSTER_") && !name.ends_with("IFNAME")) names.insert(name);
  }
  return names;
}

TEST(RankVariables, AreOfTheRuntimeOnly) {
  const std::set<std::string> always = {"PYTHONUNBUFFERED", "HOROVOD_GLOO_IFACE", "OMP_NUM_THREADS"};
  EXPECT_EQ(names_with(Runtime::kNone), always);
  EXPECT_EQ(names_with(Runtime::kMxnet), always);
  EXPECT_TRUE(names_with(Runtime::kAuto).contains("RANK"));
  EXPECT_FALSE(names_with(Runtime::kAuto).contains("TF_CONFIG"));
  EXPECT_TRUE(names_with(Runtime::kTorch).contains("MASTER_ADDR"));
  EXPECT_FALSE(names_with(Runtime::kTorch).contains("HOROVOD_RANK"));
  EXPECT_TRUE(names_with(Runtime::kHorovod).contains("HOROVOD_RANK"));
  EXPECT_FALSE(names_with(Runtime::kHorovod).contains("RANK"));
  EXPECT_TRUE(names_with(Runtime::kMpi).contains("OMPI_COMM_WORLD_RANK"));
  EXPECT_TRUE(names_with(Runtime::kJax).contains("JAX_PROCESS_ID"));
  EXPECT_TRUE(names_with(Runtime::kJax).contains("OMPI_MCA_orte_hnp_uri"));
  EXPECT_FALSE(names_with(Runtime::kMpi).contains("OMPI_MCA_orte_hnp_uri"));
  EXPECT_FALSE(names_with(Runtime::kAuto).contains("OMPI_MCA_orte_hnp_uri"));
  EXPECT_FALSE(names_with(Runtime::kJax).contains("RANK"));
}

TEST(RankVariables, TensorFlowIsToldAllWorkers) {
  RankEnvInput one = input();
  one.runtime = Runtime::kTensorflow;
  one.tensorflow_workers = {host_and_port("10.0.0.1", 7000), host_and_port("fd00::2", 7001)};
  base::Environment user;
  const auto config = [&] {
    const Variables given = rank_variables(one, user);
    const auto found = std::ranges::find(given, "TF_CONFIG", &Variables::value_type::first);
    return found != given.end() ? found->second : "none";
  };
  EXPECT_EQ(config(),
            R"({"cluster": {"worker": ["10.0.0.1:7000", "[fd00::2]:7001"]}, "task": {"type": "worker", "index": 5}})");
  user.set("TF_CONFIG", "{}");
  EXPECT_EQ(config(), "none");
}

TEST(RankVariables, OneCclKeepsTheUsersLauncher) {
  base::Environment user;
  user.set("CCL_PROCESS_LAUNCHER", "hydra");
  for (const auto& [name, value] : rank_variables(input(), user)) EXPECT_FALSE(name.starts_with("CCL_")) << name;
}

TEST(RankVariables, TorchsAgentNamesTheRunAndAFileForErrors) {
  const auto torchs = [](const base::Environment& user) {
    RankEnvInput one = input();
    one.torch_agent_store = true;
    std::map<std::string, std::string> found;
    for (const auto& [name, value] : rank_variables(one, user)) {
      if (name.starts_with("TORCHELASTIC_")) found.emplace(name, value);
    }
    return found;
  };
  std::map<std::string, std::string> expected = {
      {"TORCHELASTIC_USE_AGENT_STORE", "True"},
      {"TORCHELASTIC_RUN_ID", "abcdefgh"},
      {"TORCHELASTIC_RESTART_COUNT", "1"},
      {"TORCHELASTIC_MAX_RESTARTS", "0"},
      {"TORCHELASTIC_ERROR_FILE", "/tmp/muster-7/abcdefgh-4/torch-error.5.json"}};
  EXPECT_EQ(torchs({}), expected);
  base::Environment user;
  user.set("TORCHELASTIC_RUN_ID", "100");
  user.set("TORCHELASTIC_ERROR_FILE", "/mine");
  expected.erase("TORCHELASTIC_RUN_ID");
  expected.erase("TORCHELASTIC_ERROR_FILE");
  EXPECT_EQ(torchs(user), expected);
}

TEST(RankVariables, TorchrunMeetsInTheAgentsStore) {
  RankEnvInput one = input();
  one.is_torchrun = true;
  one.torchrun_workers = 4;
  one.master_addr = "fd00::1";
  one.master_port = 4242;
  one.address = "10.0.0.2";
  one.omp_num_threads = 8;
  const auto given = [&one](const base::Environment& user) {
    std::map<std::string, std::string> found;
    for (const auto& [name, value] : rank_variables(one, user)) {
      const bool is_torchs = name.starts_with("TORCH") || name.starts_with("PET_");
      if (is_torchs || name.starts_with("JAX_") || name == "OMP_NUM_THREADS") found.emplace(name, value);
    }
    return found;
  };
  std::map<std::string, std::string> expected = {
      {"PET_NNODES", std::to_string(one.size)},
      {"PET_NPROC_PER_NODE", "4"},
      {"PET_MAX_RESTARTS", "0"},
      {"PET_MONITOR_INTERVAL", "0.1"},
      {"PET_RDZV_BACKEND", "c10d"},
      {"PET_RDZV_ENDPOINT", "[fd00::1]:4242"},
      {"PET_RDZV_ID", "abcdefgh-" + std::to_string(one.attempt)},
      {"PET_RDZV_CONF", "is_host=0,join_timeout=600,last_call_timeout=2"},
      {"PET_LOCAL_ADDR", "10.0.0.2"},
      {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1"},
      {"TORCHELASTIC_ERROR_FILE", "/tmp/muster-7/abcdefgh-4/torch-error.5.json"}};
  EXPECT_EQ(given({}), expected);
  base::Environment user;
  user.set("PET_RDZV_ID", "mine");
  user.set("PET_NNODES", "1:9");
  expected.erase("PET_RDZV_ID");
  expected.erase("PET_NNODES");
  EXPECT_EQ(given(user), expected);
}

TEST(RankVariables, TorchsWatchdogHasAFileOnlyIfItIsServed) {
  const auto timer_file = [](bool is_served, bool has_agent_store) {
    RankEnvInput one = input();
    one.torch_agent_store = has_agent_store;
    one.has_torch_watchdog = is_served;
    const Variables given = rank_variables(one, {});
    const auto found = std::ranges::find(given, "TORCHELASTIC_TIMER_FILE", &Variables::value_type::first);
    return found != given.end() ? found->second : "none";
  };
  EXPECT_EQ(timer_file(true, true), "/tmp/muster-7/abcdefgh-4/torch-timers");
  EXPECT_EQ(timer_file(false, true), "none");
  EXPECT_EQ(timer_file(true, false), "none");
}

// The port is our agent's then.
TEST(RankVariables, NoCoordinatorOfJaxWhereTorchIsServed) {
  RankEnvInput one = input();
  one.torch_agent_store = true;
  for (const auto& [name, value] : rank_variables(one, {})) EXPECT_FALSE(name.starts_with("JAX_")) << name;
}

// Half of a protocol without the other half would mislead MPI libraries (see rank_env.cc).
TEST(RankVariables, SpeakNoPmi) {
  for (const auto& [name, value] : rank_variables(input(), {})) {
    EXPECT_FALSE(name.starts_with("PMI") || name.starts_with("MPI_LOCAL")) << name;
  }
}

// A job started inside a rank must not take the outer rank's numbers for its own.
TEST(RankVariables, OfIdentityAreNeverInherited) {
  for (const auto& [name, value] : rank_variables(input(), {})) {
    const bool is_setting = name == "PYTHONUNBUFFERED" || name == "OMP_NUM_THREADS" || name.ends_with("IFNAME") ||
                            name == "HOROVOD_GLOO_IFACE" || name == "HOROVOD_CONTROLLER" ||
                            name == "HOROVOD_CPU_OPERATIONS" || name == "CCL_PROCESS_LAUNCHER" ||
                            name == "UCX_NET_DEVICES" || name == "OMPI_MCA_btl_tcp_if_include";
    EXPECT_EQ(is_never_exported(name, true), !is_setting) << name;
  }
}

}  // namespace
}  // namespace muster::model::rank_env_test
