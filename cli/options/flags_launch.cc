// This file holds hvdrun's options on ranks, hosts, program, output and end; add_launch_flags() adds them.
// Read add_launch_flags() at the end first; each …_rows() function holds one group.
#include "cli/help/flag_row.h"
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
             "Slots of hosts that are listed without a number of slots; without -np, ranks on every host."),
      option("num-workers", {"--num-workers"}, "N",
             "With --runtime mxnet: workers of MXNet's parameter server; they go round the hosts, after the servers."),
      option("num-servers", {"--num-servers"}, "N", "With --num-workers: its servers (default: as many as workers)."),
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
             "Of the hosts only these, counted from 0 in their order: 0-3,5. Several jobs share an allocation so.")
          .list(','),
      option("spare", {"--spare"}, "N",
             "Look at all hosts first and leave N out: those that are down or not well, else the last ones.")
          .standard("0"),
      option("health-check", {"--health-check"}, "off|quick|full",
             "Look at all hosts before the job: quick as muster doctor does, full with a self-test of libmuster too. "
             "--spare means quick.")
          .standard("off"),
      option("network-interfaces", {"--network-interfaces", "--network-interface"}, "A,B",
             "Network interfaces for the ranks, the preferred one first. Repeatable.")
          .list(',')
          .repeats(Repeat::kAddsUp),
      option("network", {"--network"}, "CIDR",
             "The network in which the ranks talk, as 10.1.0.0/16: each host uses its interface there."),
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
             "manual: you, by the command that is shown.")
          .standard("auto"),
      option("bootstrap-cmd", {"--bootstrap-cmd"}, "TEMPLATE",
             "The agents are started by this command, once a host, as 'rsh {host} {cmd}'; no shell reads it."),
      option("agent-link", {"--agent-link"}, "auto|ssh|dial",
             "How the hosts' agents talk to hvdrun: through ssh, or by an own connection. auto: own, else ssh.")
          .standard("auto"),
      option("agent-dir", {"--agent-dir"}, "DIR", "Where the agent program is kept on the hosts.")
          .standard("~/.cache/muster"),
  };
}

std::vector<FlagRow> program_rows() {
  return {
      option("env", {"--env", "-x"}, "NAME[=VAL]",
             "Send this variable to the ranks, even one that is not sent by default. Repeatable.")
          .repeats(Repeat::kAddsUpOverAll),
      option("env-file", {"--env-file"}, "FILE",
             "Send the variables of this file to the ranks: NAME=VALUE a line, as docker's, and as DeepSpeed's "
             "~/.deepspeed_env. --env goes before it. Repeatable.")
          .completes(Completes::kFile)
          .repeats(Repeat::kAddsUp),
      toggle("env-none", {{"--env-none", "true"}, {"--no-env-none", "false"}},
             "Send only the variables that --env names."),
      option(
          "stage", {"--stage"}, "SRC[:DST]",
          "Put this file or folder on the hosts before the start: what has changed of it, once for each file system. "
          "DST: where, if not under its own path. Repeatable.")
          .repeats(Repeat::kAddsUpOverAll)
          .completes(Completes::kFile),
      option("wdir", {"--wdir"}, "DIR", "Working directory of the ranks (default: the current one).")
          .completes(Completes::kDirectory),
      toggle("expand", {{"--expand", "true"}, {"--no-expand", "false"}},
             "Replace {rank} {local_rank} {node_rank} {nnodes} {size} {host} {master_addr} {master_port} in the "
             "command; {{rank}} stands for {rank} itself."),
      option("ulimit", {"--ulimit"}, "NAME=V[:HARD]",
             "A resource limit of the ranks, as nofile=4096 or core=unlimited. Repeatable.")
          .repeats(Repeat::kAddsUpOverAll),
      option("stdin", {"--stdin"}, "RANK|auto|all|none",
             "Who gets hvdrun's input; the others read /dev/null. auto: rank 0, if stdin is a pipe or the terminal in "
             "whose foreground hvdrun runs.")
          .any_value()
          .standard("auto"),
      toggle("pty", {{"--pty", "true"}},
             "Run rank 0 on a terminal of its own: its keys come from hvdrun's, its output is shown as it is.")
          .command_line_only(),
  };
}

std::vector<FlagRow> pinning_rows() {
  return {
      option(
          "bind-to", {"--bind-to"}, "share|none|core|numa|socket|depth|list:CPUS:…",
          "The cores that a rank may use: its equal share of the host's, all, the core, NUMA node or socket where its "
          "share begins, --depth hardware threads, or those listed for its local rank, as list:0-7:8-15.")
          .offers({"share", "none", "core", "numa", "socket", "depth"})
          .standard("share"),
      option(
          "depth", {"--depth"}, "N",
          "Hardware threads of a rank, as under aprun -d and PALS; means --bind-to depth. No rank has threads of two "
          "sockets."),
      option(
          "hyperthreads", {"--hyperthreads"}, "J",
          "Use J hardware threads of each core, as aprun -j. Without it a --depth takes the first threads of all cores "
          "before second ones."),
      option("reserve-cores", {"--reserve-cores"}, "LIST",
             "Cores that no rank gets, with all their threads, by the number of the first one, as 0,52."),
      option("gpu-bind", {"--gpu-bind"}, "order|one|tile|none",
             "The GPUs that a rank sees: all, in an order in which number local_rank is its own; that one alone, as "
             "number "
             "0; one tile of an Intel GPU; or whatever its environment says.")
          .standard("order"),
      option("gpu-order", {"--gpu-order"}, "nearest|reverse|round-robin|3,2,…",
             "Which GPU is that of local rank 0, 1, …: the nearest, the last one first, the first one first, or as "
             "listed by number.")
          .offers({"nearest", "reverse", "round-robin"})
          .standard("nearest"),
      option("gpus-per-rank", {"--gpus-per-rank"}, "N",
             "GPUs that each rank has as its own. All ranks of a host see one list, in which those of local rank i of "
             "R are "
             "numbers i, i+R, …; with --gpu-bind one it sees its own alone. Too few for the ranks is an error."),
      toggle("share-gpu", {{"--share-gpu", "true"}, {"--no-share-gpu", "false"}},
             "Several ranks may be given the same GPU, where GPUs are fewer; for --gpu-bind one and --gpus-per-rank."),
      option("gpu-tiles", {"--gpu-tiles"}, "GPUSxTILES",
             "Intel GPUs of a host and tiles of each, as 6x2, where its kernel does not show them."),
  };
}

std::vector<FlagRow> container_rows() {
  return {
      option(
          "container", {"--container"}, "IMAGE",
          "Run the ranks inside this image, by apptainer or singularity on their hosts: with their GPUs, the working "
          "directory and Muster's library and Python."),
      option("container-args", {"--container-args"}, "WORDS",
             "More options of its exec, as '--cleanenv --bind /data'."),
      option("container-program", {"--container-program"}, "NAME|PATH",
             "Instead of apptainer, else singularity, on the hosts' PATH.")
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
      option("json-events", {"--json-events"}, "FILE",
             "Write what happens to a file, one JSON object (muster.v1.Event) a line.")
          .completes(Completes::kFile),
      toggle("report-bindings",
             {{"-report-bindings", "true"}, {"--report-bindings", "true"}, {"--no-report-bindings", "false"}},
             "Say of each rank which cores and GPUs it has been given."),
      toggle("verbose", {{"--verbose", "true"}, {"--no-verbose", "false"}},
             "Say what happens on each host, and show the table of ranks.")
          .exclusive("verbosity"),
      toggle("quiet", {{"--quiet", "true"}, {"--no-quiet", "false"}},
             "No progress, no remarks, no last line of a job that ended well; failures are told.")
          .exclusive("verbosity"),
  };
}

std::vector<FlagRow> life_rows() {
  return {
      option("start-timeout", {"--start-timeout"}, "TIME",
             "Give up if the hosts are not all up within this time, or no rank starts for so long.")
          .standard("30s")
          .environment("HOROVOD_START_TIMEOUT"),
      option("timeout", {"--timeout"}, "TIME", "Stop the job after this time; the exit code is then 124."),
      option("signal", {"--signal"}, "NAME@TIME",
             "Send this signal to all ranks so long before the job's time is over, as USR1@120 or USR1@5m: before "
             "--timeout, or the end of the scheduler's job if that is sooner."),
      option("kill-grace", {"--kill-grace"}, "TIME", "Time between SIGTERM and SIGKILL when the job is stopped.")
          .standard("5s"),
      option("runtime", {"--runtime"}, "auto|torch|horovod|mpi|mxnet|jax|tensorflow|none",
             "For which programs the ranks get an environment and are served. auto: all at once, but TensorFlow's "
             "TF_CONFIG.")
          .standard("auto"),
      option("on-exit", {"--on-exit"}, "nonzero-kill|any-kill|wait",
             "What ends the job: a rank that fails, any rank that ends, or only the end of all ranks "
             "(--keep-going).")
          .says({"--keep-going", "wait"})
          .standard("nonzero-kill"),
      option("contain", {"--contain"}, "auto|cgroup|pidns|subreaper",
             "How ranks and all that they start are held together; pidns needs root.")
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
