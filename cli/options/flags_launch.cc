// This file holds hvdrun's options on ranks, hosts, program, output and end; add_launch_flags() adds them.
// Read add_launch_flags() at the end first; each …_rows() function holds one group.
#include "cli/help/flag_row.h"
#include "cli/options/fold_option.h"
#include "cli/options/hvdrun_flags.h"
#include "cli/options/label_option.h"

namespace muster::cli::inline options {
namespace {

using enum FlagGroup;

std::vector<FlagRow> rank_rows() {
  return {
      option("num-proc", {"-np", "-n", "--num-proc"}, "N",
             "Number of ranks. Without it: -N on every host, or all slots of the hosts."),
      option("ranks-per-node", {"-N", "--ranks-per-node", "--ppn", "--npernode", "-ppn", "-npernode"}, "N",
             "Number of slots for hosts listed without one. Without -np: the number of ranks on every host."),
      option("num-workers", {"--num-workers"}, "N",
             "With --runtime mxnet: number of workers of MXNet's parameter server. They are dealt to the hosts in "
             "turn, after the servers."),
      option("num-servers", {"--num-servers"}, "N",
             "With --num-workers: number of servers (default: as many as workers)."),
      toggle("oversubscribe", {{"--oversubscribe", "true"}, {"--no-oversubscribe", "false"}},
             "Allow more ranks than slots."),
      option("map-by", {"--map-by"}, "slot|node",
             "How ranks are numbered: slot fills one host after the other, node goes round the hosts.")
          .standard("slot"),
  };
}

std::vector<FlagRow> host_rows() {
  return {
      option("hosts", {"-H", "--hosts", "--host", "-host"}, "LIST",
             "Hosts and slots: [user@]name[:slots],…; ranges n[01-16,20]; IPv6 in brackets, [fe80::1]:4.")
          .list(',')
          .completes(Completes::kHost)
          .exclusive("hosts"),
      option("hostfile", {"-hostfile", "--hostfile"}, "FILE",
             "Hosts from a file, one a line: name slots=4, or name:4; also max_slots= port= user=; # comments.")
          .completes(Completes::kFile)
          .exclusive("hosts"),
      option("nodes", {"--nodes"}, "LIST",
             "Use only these hosts of the list, numbered from 0: 0-3,5. So several jobs can share an allocation.")
          .list(','),
      option(
          "spare", {"--spares", "--spare"}, "N|LIST",
          "Hosts in reserve. N: check all hosts first and leave N out: hosts that are down or unhealthy, else the last "
          "ones. LIST: these hosts, as in -H; they take over from hosts that fail (--on-failure).")
          .any_value()
          .completes(Completes::kHost)
          .standard("0"),
      option("health-check", {"--health-check"}, "off|quick|full",
             "Check all hosts before the job. quick: the checks of muster doctor. full: also a self-test of libmuster. "
             "--spares N implies quick.")
          .standard("off"),
      option("network-interfaces", {"--network-interfaces", "--network-interface"}, "A,B",
             "Network interfaces for the ranks, the preferred one first. Repeatable.")
          .list(',')
          .repeats(Repeat::kAddsUp),
      option("network", {"--network"}, "CIDR",
             "The network over which the ranks communicate, such as 10.1.0.0/16: each host uses its interface there."),
  };
}

std::vector<FlagRow> ssh_rows() {
  return {
      option("ssh-port", {"-p", "--ssh-port"}, "PORT", "Port of sshd on the hosts."),
      option("ssh-identity-file", {"-i", "--ssh-identity-file"}, "FILE", "Private key for the hosts.")
          .completes(Completes::kFile),
      option("ssh-backend", {"--ssh-backend"}, "auto|libssh|ssh",
             "Built-in ssh client or the ssh program. auto: built-in, and ssh for hosts whose configuration needs it.")
          .standard("auto"),
      option("bootstrap", {"--bootstrap"}, "auto|ssh|srun|aprun|pals|pbsdsh|flux|jsrun|manual",
             "What starts the agents on the hosts. auto: srun or aprun on the hosts of their allocation, else ssh. "
             "manual: you run the command that hvdrun shows.")
          .standard("auto"),
      option("bootstrap-cmd", {"--bootstrap-cmd"}, "TEMPLATE",
             "Start the agents by this command, once for each host, such as 'rsh {host} {cmd}'. No shell reads it."),
      option("agent-link", {"--agent-link"}, "auto|ssh|dial",
             "How agents connect to hvdrun: through ssh, or by a connection of their own (dial). auto: dial, else ssh.")
          .standard("auto"),
      option("fanout", {"--fanout"}, "N",
             "With more hosts than N, some agents carry the connections of the others. 0: never.")
          .standard("64"),
      option("agent-dir", {"--agent-dir"}, "DIR", "Where the agent program is kept on the hosts.")
          .standard("~/.cache/muster"),
  };
}

std::vector<FlagRow> program_rows() {
  return {
      option("env", {"--env", "-x"}, "NAME[=VAL]",
             "Send this variable to the ranks, even one that is not sent by default. Repeatable.")
          .completes(Completes::kVariable)
          .repeats(Repeat::kAddsUpOverAll),
      option("env-file", {"--env-file"}, "FILE",
             "Send the variables of this file to the ranks. A line is NAME=VALUE, as in env files of docker and in "
             "DeepSpeed's ~/.deepspeed_env. --env wins over it. Repeatable.")
          .completes(Completes::kFile)
          .repeats(Repeat::kAddsUp),
      toggle("env-none", {{"--env-none", "true"}, {"--no-env-none", "false"}},
             "Send only the variables that --env names."),
      option("stage", {"--stage"}, "SRC[:DST]",
             "Copy this file or folder to the hosts before the start. Only what changed is sent, once for each file "
             "system. DST: its path there (default: the same path). Repeatable.")
          .repeats(Repeat::kAddsUpOverAll)
          .completes(Completes::kFile),
      option(
          "stage-env", {"--stage-env"}, "DIR|venv|conda",
          "Start the ranks from a copy of this environment of Python on their host's own disk. It is packed once, and "
          "sent to the hosts that do not have it. venv, conda: the active one.")
          .completes(Completes::kDirectory)
          .offers({"venv", "conda"}),
      option("wdir", {"--wdir"}, "DIR", "Working directory of the ranks (default: the current one).")
          .completes(Completes::kDirectory),
      toggle("expand", {{"--expand", "true"}, {"--no-expand", "false"}},
             "Replace {rank} {local_rank} {node_rank} {nnodes} {size} {host} {master_addr} {master_port} in the "
             "command; {{rank}} stands for {rank} itself."),
      option("ulimit", {"--ulimit"}, "NAME=V[:HARD]",
             "A resource limit of the ranks, as nofile=4096 or core=unlimited. Repeatable.")
          .repeats(Repeat::kAddsUpOverAll),
      option("stdin", {"--stdin"}, "RANK|auto|all|none",
             "Which rank gets hvdrun's input; the others read /dev/null. auto: rank 0, if stdin is a pipe, or a "
             "terminal with hvdrun in its foreground.")
          .any_value()
          .standard("auto"),
      toggle(
          "pty", {{"--pty", "true"}},
          "Run rank 0 on a terminal of its own. It gets the keys typed at hvdrun, and its output is shown unchanged.")
          .command_line_only(),
  };
}

std::vector<FlagRow> pinning_rows() {
  return {
      option("bind-to", {"--bind-to"}, "share|none|core|numa|socket|depth|list:CPUS:…",
             "The cores that a rank may use. share: an equal share of the host's cores. none: all. core, numa, socket: "
             "the core, NUMA node or socket where its share begins. depth: --depth hardware threads. list: those "
             "listed for its local rank, such as list:0-7:8-15.")
          .offers({"share", "none", "core", "numa", "socket", "depth"})
          .standard("share"),
      option("depth", {"--depth"}, "N",
             "Number of hardware threads for each rank, like aprun -d and PALS; implies --bind-to depth. No rank gets "
             "threads of two sockets."),
      option("hyperthreads", {"--hyperthreads"}, "J",
             "Use J hardware threads of each core, like aprun -j. Without it, --depth takes the first thread of every "
             "core before any second one."),
      option(
          "reserve-cores", {"--reserve-cores"}, "LIST",
          "Cores that no rank gets, with all their threads, such as 0,52. A core has the number of its first thread."),
      option("gpu-bind", {"--gpu-bind"}, "order|one|tile|none",
             "The GPUs that a rank sees. order: all, ordered so that number local_rank is its own. one: only its own, "
             "as number 0. tile: one tile of an Intel GPU. none: what its environment says.")
          .standard("order"),
      option("gpu-order", {"--gpu-order"}, "nearest|reverse|round-robin|3,2,…",
             "Which GPU belongs to local rank 0, 1, …: the nearest one; with reverse the last GPU first; with "
             "round-robin the first GPU first; or the listed numbers.")
          .offers({"nearest", "reverse", "round-robin"})
          .standard("nearest"),
      option("gpus-per-rank", {"--gpus-per-rank"}, "N",
             "Number of GPUs for each rank. All ranks of a host see the same list; local rank i of R owns numbers i, "
             "i+R, … of it. With --gpu-bind one a rank sees only its own GPUs. Too few GPUs are an error."),
      toggle("share-gpu", {{"--share-gpu", "true"}, {"--no-share-gpu", "false"}},
             "Let several ranks share a GPU if a host has too few GPUs; for --gpu-bind one and --gpus-per-rank."),
      option("gpu-tiles", {"--gpu-tiles"}, "GPUSxTILES",
             "Number of Intel GPUs of a host and of tiles on each, such as 6x2, for hosts whose kernel does not show "
             "them."),
  };
}

std::vector<FlagRow> container_rows() {
  return {
      option("container", {"--container"}, "IMAGE",
             "Run the ranks inside this image, by apptainer or singularity on their hosts. Their GPUs, the working "
             "directory, and Muster's library and Python package are available there."),
      option("container-args", {"--container-args"}, "WORDS",
             "More options for its exec command, such as '--cleanenv --bind /data'."),
      option("container-program", {"--container-program"}, "NAME|PATH",
             "The container program (default: apptainer, else singularity, on the hosts' PATH).")
          .any_value(),
  };
}

std::vector<FlagRow> output_rows() {
  return {
      option("output-filename", {"--output-filename"}, "DIR",
             "Also write DIR/rank.NN/stdout and DIR/rank.NN/stderr, on this machine.")
          .completes(Completes::kDirectory),
      toggle("prefix-output-with-timestamp",
             {{"-prefix-timestamp", "true"},
              {"--prefix-output-with-timestamp", "true"},
              {"--no-prefix-output-with-timestamp", "false"}},
             "Put the time before each line of the ranks."),
      label_row(),
      fold_row(),
      option("json-events", {"--json-events"}, "FILE",
             "Write the job's events to a file, one JSON object (muster.v1.Event) on each line.")
          .completes(Completes::kFile),
      option("tensorboard", {"--tensorboard"}, "DIR",
             "Write what is measured of the job into a new file in this folder, for TensorBoard: steps and bytes of "
             "output a second, late ranks and hosts, and how busy the hosts are.")
          .completes(Completes::kDirectory),
      toggle("report-bindings",
             {{"-report-bindings", "true"}, {"--report-bindings", "true"}, {"--no-report-bindings", "false"}},
             "Print which cores and GPUs each rank got."),
      toggle("verbose", {{"--verbose", "true"}, {"--no-verbose", "false"}},
             "Print what happens on each host, and the table of ranks.")
          .exclusive("verbosity"),
      toggle("quiet", {{"--quiet", "true"}, {"--no-quiet", "false"}},
             "Print no progress, no remarks, and no last line for a job that succeeded. Failures are printed.")
          .exclusive("verbosity"),
  };
}

std::vector<FlagRow> life_rows() {
  return {
      option("start-timeout", {"--start-timeout"}, "TIME",
             "Fail if not all hosts are up within this time, or if no rank starts for this long.")
          .standard("30s")
          .environment("HOROVOD_START_TIMEOUT"),
      option("min-hosts", {"--min-hosts"}, "N",
             "Start with N or more hosts if others are not up after --start-timeout: each slot that is up gets a rank. "
             "With -np all ranks must fit on the hosts that are up. Spares of --spares take the places of late hosts."),
      option("timeout", {"--timeout"}, "TIME", "Stop the job after this time; the exit code is then 124."),
      option("signal", {"--signal"}, "NAME@TIME",
             "Send this signal to all ranks this long before the job's time ends, such as USR1@120 or USR1@5m. The "
             "time ends at --timeout, or with the scheduler's job if that is sooner."),
      option("kill-grace", {"--kill-grace"}, "TIME", "Time between SIGTERM and SIGKILL when the job is stopped.")
          .standard("5s"),
      option("runtime", {"--runtime"}, "auto|torch|horovod|mpi|mxnet|jax|tensorflow|none",
             "The kind of program whose environment and services the ranks get. auto: all kinds at once, except "
             "TensorFlow's TF_CONFIG.")
          .standard("auto"),
      option("on-exit", {"--on-exit"}, "nonzero-kill|any-kill|wait",
             "What ends the job: a rank that fails, any rank that ends, or only the end of all ranks "
             "(--keep-going).")
          .says({"--keep-going", "wait"})
          .standard("nonzero-kill"),
      option("on-failure", {"--on-failure"}, "fail|restart|replace|shrink",
             "What a failed rank or host leads to. fail (the default): the job ends. restart: all ranks start again. "
             "replace: also, a spare takes the place of a lost host. shrink: as replace, and without a spare fewer "
             "ranks start again."),
      option("max-restarts", {"--max-restarts"}, "N",
             "Start all ranks again at most N times after a rank has failed. Implies --on-failure restart. Default: 3 "
             "with --on-failure, else 0."),
      option(
          "progress-text", {"--progress-text"}, "TEXT",
          "A line of the ranks with this text shows progress: a failure after it does not count for --max-restarts."),
      option("progress-file", {"--progress-file"}, "PATH",
             "A change of this file on a host of the job, such as a new checkpoint, shows progress, as a line with "
             "--progress-text does."),
      option("failed-host-cooldown", {"--failed-host-cooldown"}, "SECONDS",
             "Allow a failed host again as a spare after this time, and if it cannot be searched not before its lease "
             "is over. Default: never in the same job. Only for --on-failure replace and shrink."),
      option("hang-timeout", {"--hang-timeout"}, "TIME",
             "Report which ranks hold the job up if no rank writes or finishes an operation of libmuster for this time "
             "and all of them wait. 0: never.")
          .standard("120s"),
      option(
          "on-hang", {"--on-hang"}, "warn|restart|kill",
          "What follows the report of a hang. warn: nothing. restart: the suspect rank counts as failed, so all ranks "
          "start again; implies --on-failure restart. kill: the job ends.")
          .standard("warn"),
      option("elastic-policy", {"--elastic-policy"}, "fixed|give-back|grow|both",
             "Which changes of its size launcherd makes by itself, for jobs of launcherd with --min-np, or with "
             "--on-failure shrink or replace: give-back gives slots, down to --min-np, to a waiting job of higher "
             "priority; grow takes free slots, up to --max-np, while no job waits. With --on-failure all ranks start "
             "again each time, after --signal.")
          .standard("fixed")
          .command_line_only(),
      option("contain", {"--contain"}, "auto|cgroup|pidns|subreaper",
             "How ranks and all processes that they start are kept together; pidns needs root.")
          .standard("auto"),
  };
}

}  // namespace

void add_launch_flags(std::vector<Flag>& flags) {
  add_group(kRanks, rank_rows(), flags);
  add_group(kHosts, host_rows(), flags);
  add_group(kSsh, ssh_rows(), flags);
  add_group(kProgram, program_rows(), flags);
  add_group(kProgram, pinning_rows(), flags);
  add_group(kProgram, container_rows(), flags);
  add_group(kOutput, output_rows(), flags);
  add_group(kLife, life_rows(), flags);
}

}  // namespace muster::cli::options
