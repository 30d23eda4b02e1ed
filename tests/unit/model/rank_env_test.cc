#include "model/rank_env.h"

#include <algorithm>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::model {
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
        "MPI_LOCALRANKID", "PALS_RANKID", "SLURM_PROCID", "SLURM_STEP_ID", "SLURM_NTASKS", "FLUX_TASK_RANK",
        "DMLC_NUM_WORKER", "MV2_COMM_WORLD_RANK", "MUSTER_RANK", "MUSTER_SESSION_DIR"}) {
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
  for (const char* name : {"CUDA_VISIBLE_DEVICES", "NOT_CUDA_VISIBLE_DEVICES"}) {
    EXPECT_TRUE(is_never_exported(name, false)) << name;
    EXPECT_FALSE(is_never_exported(name, true)) << name;
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

RankEnvInput input() {
  RankEnvInput result;
  result.job_id = "abcdefgh";
  result.attempt = 1;
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
                                                       {"OMPI_COMM_WORLD_RANK", "5"},
                                                       {"OMPI_COMM_WORLD_SIZE", "9"},
                                                       {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                                       {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                                       {"OMPI_COMM_WORLD_NODE_RANK", "1"},
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
                            name == "HOROVOD_CPU_OPERATIONS";
    EXPECT_EQ(is_never_exported(name, true), !is_setting) << name;
  }
}

}  // namespace
}  // namespace muster::model
