// Every option of hvdrun in every spelling, as the user's words and what they are read as.
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/strings.h"
#include "cli/options/hvdrun_flags.h"
#include "tests/unit/cli/options/parsed.h"

namespace muster::cli::spellings_test {
namespace {

using ::testing::ElementsAre;

struct Accepted {
  Words words;  // before the command "prog"
  std::string shown;
};

// With the value as the next word and, where that exists, attached.
const std::vector<Accepted>& launch_table() {
  static const std::vector<Accepted> kTable = {
      {{}, ""},
      {{"-np", "4"}, "np=4"},
      {{"-np=4"}, "np=4"},
      {{"-n", "4"}, "np=4"},
      {{"-n4"}, "np=4"},
      {{"-n=4"}, "np=4"},
      {{"--num-proc", "4"}, "np=4"},
      {{"--num-proc=4"}, "np=4"},
      {{"-N", "2"}, "per_node=2"},
      {{"-N2"}, "per_node=2"},
      {{"--ranks-per-node", "2"}, "per_node=2"},
      {{"--ranks-per-node=2"}, "per_node=2"},
      {{"--ppn", "2"}, "per_node=2"},
      {{"--ppn=2"}, "per_node=2"},
      {{"-ppn", "2"}, "per_node=2"},
      {{"--npernode", "2"}, "per_node=2"},
      {{"-npernode", "2"}, "per_node=2"},
      {{"--runtime", "mxnet", "--num-workers", "3"}, "runtime=mxnet workers=3 servers=3"},
      {{"--runtime", "mxnet", "--num-workers=3", "--num-servers=2"}, "runtime=mxnet workers=3 servers=2"},
      {{"--runtime", "mxnet", "--num-servers", "2", "--num-workers", "1"}, "runtime=mxnet workers=1 servers=2"},
      {{"--oversubscribe"}, "oversubscribe"},
      {{"-H", "a:1,b"}, "host=a:1 host=b:-1"},
      {{"-H=a"}, "host=a:-1"},
      {{"--hosts", "a"}, "host=a:-1"},
      {{"--hosts=a"}, "host=a:-1"},
      {{"--host", "a"}, "host=a:-1"},
      {{"-host", "a"}, "host=a:-1"},
      {{"-H", "[::1]"}, "host=::1:-1"},
      {{"-H", "n[1-2]:3"}, "host=n1:3 host=n2:3"},
      {{"-H", "[1-2]"}, "host=1:-1 host=2:-1"},
      {{"-hostfile", "f"}, "hostfile=f"},
      {{"--hostfile", "f"}, "hostfile=f"},
      {{"--hostfile=f"}, "hostfile=f"},
      {{"-p", "2222"}, "port=2222"},
      {{"-p2222"}, "port=2222"},
      {{"--ssh-port", "2222"}, "port=2222"},
      {{"--ssh-port=2222"}, "port=2222"},
      {{"-i", "key"}, "identity=key"},
      {{"--ssh-identity-file", "key"}, "identity=key"},
      {{"--ssh-identity-file=k=y"}, "identity=k=y"},
      {{"--ssh-backend", "auto"}, ""},
      {{"--ssh-backend", "libssh"}, "backend=libssh"},
      {{"--ssh-backend=ssh"}, "backend=ssh"},
      {{"--bootstrap", "auto"}, ""},
      {{"--bootstrap", "ssh"}, "by=1"},
      {{"--bootstrap=srun"}, "by=2"},
      {{"--bootstrap", "aprun"}, "by=3"},
      {{"--bootstrap", "pals"}, "by=4"},
      {{"--bootstrap", "pbsdsh"}, "by=5"},
      {{"--bootstrap", "flux"}, "by=6"},
      {{"--bootstrap", "jsrun"}, "by=7"},
      {{"--bootstrap", "manual"}, "by=8 start=600000ms"},
      {{"--bootstrap", "manual", "--start-timeout", "60"}, "by=8 start=60000ms"},
      {{"--bootstrap-cmd", "rsh {host} {cmd}"}, "by=9 command=rsh {host} {cmd}"},
      {{"--bootstrap-cmd=rsh {host} {cmd}"}, "by=9 command=rsh {host} {cmd}"},
      {{"--agent-link", "auto"}, ""},
      {{"--agent-link", "ssh"}, "link=ssh"},
      {{"--agent-link=dial"}, "link=dial"},
      {{"--agent-dir", "/opt/m"}, "agent_dir=/opt/m"},
      {{"--agent-dir=/opt/m"}, "agent_dir=/opt/m"},
      {{"--env", "A"}, "env=A"},
      {{"-x", "A=b c"}, "env=A=b c"},
      {{"--env=A=b=c"}, "env=A=b=c"},
      {{"-x", "A=", "-x", "B", "--env", "A=[x,y]"}, "env=A= env=B env=A=[x,y]"},
      {{"-x", "A=line\nline"}, "env=A=line\nline"},
      {{"-x", "A=-np"}, "env=A=-np"},
      {{"--env-none"}, "only_named"},
      {{"--stage", "a"}, "stage=a:"},
      {{"--env-file", "a", "--env-file=/b"}, "env_file=a env_file=/b"},
      {{"--stage=a:/b/", "--stage", "c:d:e"}, "stage=a:/b/ stage=c:d:e"},
      {{"--wdir", "/data"}, "wdir=/data"},
      {{"--wdir=rel"}, "wdir=rel"},
      {{"--wdir", "-odd"}, "wdir=-odd"},
      {{"--output-filename", "logs"}, "output=logs"},
      {{"--output-filename=logs"}, "output=logs"},
      {{"-prefix-timestamp"}, "timestamp"},
      {{"--prefix-output-with-timestamp"}, "timestamp"},
      {{"--label-format", "{rank}: "}, "label=3: "},
      {{"--label-format={{{stream}}}"}, "label={stdout}"},
      {{"--label-format", "none"}, "label="},
      {{"--no-label"}, "label="},
      {{"--no-label", "-prefix-timestamp"}, "timestamp label=noon "},
      {{"-report-bindings"}, "bindings"},
      {{"--report-bindings"}, "bindings"},
      {{"--verbose"}, "verbose"},
      {{"--start-timeout", "60"}, "start=60000ms"},
      {{"--start-timeout=1m"}, "start=60000ms"},
      {{"--timeout", "3600"}, "timeout=3600000ms"},
      {{"--timeout=1.5h"}, "timeout=5400000ms"},
      {{"--kill-grace", "500ms"}, "grace=500ms"},
      {{"--kill-grace=0"}, "grace=0ms"},
      {{"--signal", "USR1@120"}, "signal=10@120000ms"},
      {{"--signal=SIGTERM@1.5m"}, "signal=15@90000ms"},
      {{"--signal", "12@0"}, "signal=12@0ms"},
      {{"--nodes", "0-3,5"}, "nodes=0-3 nodes=5-5"},
      {{"--nodes=2"}, "nodes=2-2"},
      {{"--spare", "2"}, "spare=2 health=1"},
      {{"--spare=0"}, ""},
      {{"--health-check", "off"}, ""},
      {{"--health-check", "quick"}, "health=1"},
      {{"--health-check=full"}, "health=2"},
      {{"--spare", "1", "--health-check", "full"}, "spare=1 health=2"},
      {{"--runtime", "auto"}, ""},
      {{"--runtime", "torch"}, "runtime=torch"},
      {{"--runtime", "horovod"}, "runtime=horovod"},
      {{"--runtime=mpi"}, "runtime=mpi"},
      {{"--runtime", "mxnet"}, "runtime=mxnet"},
      {{"--runtime", "jax"}, "runtime=jax"},
      {{"--runtime", "tensorflow"}, "runtime=tensorflow"},
      {{"--runtime", "none"}, "runtime=none"},
      {{"--on-exit", "nonzero-kill"}, ""},
      {{"--on-exit", "any-kill"}, "any-kill"},
      {{"--on-exit=wait"}, "wait"},
      {{"--contain", "auto"}, ""},
      {{"--contain", "cgroup"}, "contain=cgroup"},
      {{"--contain=pidns"}, "contain=pidns"},
      {{"--contain", "subreaper"}, "contain=subreaper"},
      // the last one counts
      {{"-np", "2", "-np", "4"}, "np=4"},
      {{"-H", "a", "-H", "b"}, "host=b:-1"},
      {{"--verbose", "--verbose"}, "verbose"},
      {{"--on-exit", "wait", "--on-exit", "nonzero-kill"}, ""},
      // the line
      {{"-np", "8", "--hostfile", "hosts", "-p", "2222", "-i", "key", "--output-filename", "logs", "--verbose",
        "--start-timeout", "60", "--timeout", "3600", "--kill-grace", "5"},
       "np=8 hostfile=hosts port=2222 identity=key output=logs verbose start=60000ms timeout=3600000ms"},
      {{"--no-oversubscribe"}, ""},
      {{"--map-by", "slot"}, ""},
      {{"--map-by=node"}, "by_node"},
      {{"--network-interfaces", "eth0"}, "nic=eth0 env=NCCL_SOCKET_IFNAME=eth0"},
      {{"--network-interfaces=ib0,eth0"}, "nic=ib0 nic=eth0 env=NCCL_SOCKET_IFNAME=ib0,eth0"},
      {{"--network-interface", "ib0", "--network-interface", "eth0", "--network-interface", "ib0"},
       "nic=ib0 nic=eth0 env=NCCL_SOCKET_IFNAME=ib0,eth0"},
      {{"--network", "10.0.0.0/8"}, "network=10.0.0.0/8"},
      {{"--network=fd00::/8"}, "network=fd00::/8"},
      {{"--no-env-none"}, ""},
      {{"--no-prefix-output-with-timestamp"}, ""},
      {{"--no-report-bindings"}, ""},
      {{"--no-verbose"}, ""},
      {{"--quiet"}, "quiet"},
      {{"--no-quiet"}, ""},
      {{"--json-events", "f"}, "events=f"},
      {{"--launcher", "auto"}, "launcher=auto"},
      {{"--keep-going"}, "wait"},
      {{"--on-exit", "any-kill", "--keep-going"}, "wait"},
      {{"--expand"}, "expand"},
      {{"--no-expand"}, ""},
      {{"--bind-to", "share"}, ""},
      {{"--bind-to", "none"}, "bind=none"},
      {{"--bind-to=core"}, "bind=core"},
      {{"--bind-to", "numa"}, "bind=numa"},
      {{"--bind-to", "socket"}, "bind=socket"},
      {{"--bind-to", "depth", "--depth", "8"}, "bind=depth depth=8"},
      {{"--depth", "4", "--hyperthreads=2"}, "bind=depth depth=4 hyperthreads=2"},
      {{"--bind-to", "list:0-3,8:4,5"}, "bind=list:0-3,8:4-5"},
      {{"--reserve-cores", "52,0"}, "reserved=0,52"},
      {{"--gpu-order", "reverse"}, "gpu_order=reverse"},
      {{"--gpu-order=3,2,0"}, "gpu_order=3,2,0"},
      {{"--container", "a.sif", "--container-args", "--cleanenv -B '/a b'", "--container-program", "singularity"},
       "container=a.sif container_arg=--cleanenv container_arg=-B container_arg=/a b container_program=singularity"},
      {{"--gpu-tiles", "6x2"}, "gpu_tiles=6x2"},
      {{"--gpus-per-rank", "2"}, "gpus_per_rank=2"},
      {{"--gpus-per-rank=4", "--share-gpu"}, "gpus_per_rank=4 share_gpu"},
      {{"--share-gpu"}, "share_gpu"},
      {{"--no-share-gpu"}, ""},
      {{"--gpu-bind", "none"}, ""},
      {{"--ulimit", "nofile=4096", "--ulimit=core=0:unlimited"}, "limit=nofile:4096:4096 limit=core:0:unlimited"},
      {{"--stdin", "none"}, ""},
  };
  return kTable;
}

// horovodrun's options, and the variables that the ranks get for them.
const std::vector<Accepted>& horovod_table() {
  static const std::vector<Accepted> kTable = {
      {{"--fusion-threshold-mb", "32"}, "env=HOROVOD_FUSION_THRESHOLD=33554432"},
      {{"--fusion-threshold-mb=0"}, "env=HOROVOD_FUSION_THRESHOLD=0"},
      {{"--cycle-time-ms", "3.5"}, "env=HOROVOD_CYCLE_TIME=3.5"},
      {{"--cycle-time-ms=10"}, "env=HOROVOD_CYCLE_TIME=10.0"},
      {{"--cache-capacity", "2048"}, "env=HOROVOD_CACHE_CAPACITY=2048"},
      {{"--hierarchical-allreduce"}, "env=HOROVOD_HIERARCHICAL_ALLREDUCE=1"},
      {{"--no-hierarchical-allreduce"}, "env=HOROVOD_HIERARCHICAL_ALLREDUCE=0"},
      {{"--hierarchical-allgather"}, "env=HOROVOD_HIERARCHICAL_ALLGATHER=1"},
      {{"--no-hierarchical-allgather"}, "env=HOROVOD_HIERARCHICAL_ALLGATHER=0"},
      {{"--torus-allreduce"}, "env=HOROVOD_TORUS_ALLREDUCE=1"},
      {{"--no-torus-allreduce"}, "env=HOROVOD_TORUS_ALLREDUCE=0"},
      {{"--autotune"}, "env=HOROVOD_AUTOTUNE=1"},
      {{"--no-autotune"}, ""},
      {{"--autotune", "--autotune-log-file", "t.csv"}, "env=HOROVOD_AUTOTUNE=1 env=HOROVOD_AUTOTUNE_LOG=t.csv"},
      {{"--autotune-log-file=t.csv"}, ""},  // counts with autotune only, as do the next four
      {{"--autotune-warmup-samples", "5", "--autotune"},
       "env=HOROVOD_AUTOTUNE=1 env=HOROVOD_AUTOTUNE_WARMUP_SAMPLES=5"},
      {{"--autotune-steps-per-sample", "5", "--autotune"},
       "env=HOROVOD_AUTOTUNE=1 env=HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE=5"},
      {{"--autotune-bayes-opt-max-samples", "5", "--autotune"},
       "env=HOROVOD_AUTOTUNE=1 env=HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES=5"},
      {{"--autotune-gaussian-process-noise", "0.25", "--autotune"},
       "env=HOROVOD_AUTOTUNE=1 env=HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE=0.25"},
      {{"--autotune-gaussian-process-noise=1"}, ""},
      {{"--timeline-filename", "t.json"}, "env=HOROVOD_TIMELINE=t.json"},
      {{"--timeline-filename=DYNAMIC", "--timeline-mark-cycles"},
       "env=HOROVOD_TIMELINE=DYNAMIC env=HOROVOD_TIMELINE_MARK_CYCLES=1"},
      {{"--no-timeline-mark-cycles", "--timeline-filename", "t.json"},
       "env=HOROVOD_TIMELINE=t.json env=HOROVOD_TIMELINE_MARK_CYCLES=0"},
      {{"--timeline-mark-cycles"}, ""},
      {{"--stall-check"}, "env=HOROVOD_STALL_CHECK_DISABLE=0"},
      {{"--no-stall-check"}, "env=HOROVOD_STALL_CHECK_DISABLE=1"},
      {{"--stall-check-warning-time-seconds", "90"}, "env=HOROVOD_STALL_CHECK_TIME_SECONDS=90"},
      {{"--stall-check-shutdown-time-seconds=0"}, "env=HOROVOD_STALL_SHUTDOWN_TIME_SECONDS=0"},
      {{"--stall-check-shutdown-time-seconds", "120"}, "env=HOROVOD_STALL_SHUTDOWN_TIME_SECONDS=120"},
      {{"--log-level", "TRACE"}, "env=HOROVOD_LOG_LEVEL=TRACE"},
      {{"--log-level=FATAL"}, "env=HOROVOD_LOG_LEVEL=FATAL"},
      {{"--log-with-timestamp"}, "env=HOROVOD_LOG_HIDE_TIME=0"},
      {{"--no-log-hide-timestamp"}, "env=HOROVOD_LOG_HIDE_TIME=0"},
      {{"--log-without-timestamp"}, "env=HOROVOD_LOG_HIDE_TIME=1"},
      {{"--log-hide-timestamp"}, "env=HOROVOD_LOG_HIDE_TIME=1"},
      {{"--gloo"}, ""},
      {{"--horovod", "muster"}, "env=MUSTER_HOROVOD=muster"},
      {{"--horovod=installed"}, "env=MUSTER_HOROVOD=installed"},
      {{"--mpi-threads-disable"}, "env=HOROVOD_MPI_THREADS_DISABLE=1"},
      {{"--no-mpi-threads-disable"}, "env=HOROVOD_MPI_THREADS_DISABLE=0"},
      {{"--mpi-args=--map-by ppr:6:node"}, "note=--mpi-args"},
      {{"--mpi-args", "-x A"}, "note=--mpi-args"},
      {{"--binding-args=--rankfile f"}, "note=--binding-args"},
      {{"--binding-args", "-x"}, "note=--binding-args"},
      {{"--tcp"}, "env=NCCL_IB_DISABLE=1"},
      {{"--no-tcp"}, ""},
      {{"--num-nccl-streams", "2"}, "env=HOROVOD_NUM_NCCL_STREAMS=2"},
      {{"--thread-affinity", "0"}, "env=HOROVOD_THREAD_AFFINITY=0"},
      {{"--gloo-timeout-seconds", "60"}, "env=HOROVOD_GLOO_TIMEOUT_SECONDS=60"},
      {{"--disable-cache"}, ""},
      {{"--no-disable-cache"}, ""},
      {{"--host-discovery-script", "./hosts.sh -v"}, "discovery=./hosts.sh -v note=--host-discovery-script"},
      {{"--min-np", "1"}, "min=1 note=--min-np"},
      {{"--min-num-proc=1"}, "min=1 note=--min-num-proc"},
      {{"--max-np", "8"}, "max=8 note=--max-np"},
      {{"--max-num-proc", "8"}, "max=8 note=--max-num-proc"},
      {{"--slots-per-host", "2"}, "note=--slots-per-host"},
      {{"--elastic-timeout", "600"}, "note=--elastic-timeout"},
      {{"--reset-limit", "3"}, "note=--reset-limit"},
      {{"--blacklist-cooldown-range", "1", "3600"}, "note=--blacklist-cooldown-range"},
  };
  return kTable;
}

TEST(Spellings, EachIsReadAsWhatItSays) {
  for (const auto* table : {&launch_table(), &horovod_table()}) {
    for (const Accepted& given : *table) {
      Words words = given.words;
      words.emplace_back("prog");
      const ParsedHvdrun parsed = parse(words);
      ASSERT_FALSE(parsed.exit_code) << base::join(words, " ") << ": " << parsed.text;
      EXPECT_EQ(show(parsed), given.shown) << base::join(words, " ");
      EXPECT_THAT(parsed.options.job.command, ElementsAre("prog"));
    }
  }
}

TEST(Spellings, NoneIsMissingFromTheTables) {
  // These answer or refuse, or need a file: options_test.cc,
  // config_file_test.cc, dry_run_test.cc.
  std::set<std::string> tried = {"-v",     "--version",     "-h",      "--help",    "--config-file", "--print-config",
                                 "-cb",    "--check-build", "--pty",   "--dry-run", "--completion",  "--man",
                                 "--json", "--assume-node", "--probe", "--mpi",     "--jsrun",       "--self-test",
                                 "-t",     "--template",    "--set"};
  for (const auto* table : {&launch_table(), &horovod_table()}) {
    for (const Accepted& given : *table) {
      for (const std::string& word : given.words) tried.insert(word.substr(0, word.find('=')));
    }
  }
  for (const Flag& flag : hvdrun_flags().flags()) {
    for (const Spelling& spelling : flag.spellings) {
      EXPECT_TRUE(tried.contains(std::string(spelling.text))) << spelling.text;
    }
  }
}

}  // namespace
}  // namespace muster::cli::spellings_test
