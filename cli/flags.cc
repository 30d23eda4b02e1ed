#include "cli/flags.h"

#include <algorithm>

namespace muster::cli {
namespace {

using enum FlagGroup;

// An option of horovodrun 0.28.1 that is not in this version.
Flag absent(std::string_view name, std::vector<std::string_view> spellings, int values) {
  return {.name = name, .spellings = std::move(spellings), .values = values, .is_active = false};
}

std::vector<Flag> make_active_flags() {
  return {
      {"num-proc",
       {"-np", "-n", "--num-proc"},
       1,
       true,
       kRanks,
       "N",
       "Number of ranks. Without it: -N on every host, or all slots of the hosts."},
      {"ranks-per-node",
       {"-N", "--ranks-per-node", "--ppn", "--npernode", "-ppn", "-npernode"},
       1,
       true,
       kRanks,
       "N",
       "Slots of hosts that are listed without a number of slots; without -np, ranks on every host."},
      {"oversubscribe", {"--oversubscribe"}, 0, true, kRanks, "", "Allow more ranks than slots."},

      {"hosts",
       {"-H", "--hosts", "--host", "-host"},
       1,
       true,
       kHosts,
       "LIST",
       "Hosts and slots: [user@]name[:slots],…; ranges n[01-16,20]; IPv6 in brackets, [fe80::1]:4."},
      {"hostfile",
       {"-hostfile", "--hostfile"},
       1,
       true,
       kHosts,
       "FILE",
       "Hosts from a file, one a line: name slots=4, or name:4; also max_slots= port= user=; # comments."},

      {"ssh-port", {"-p", "--ssh-port"}, 1, true, kSsh, "PORT", "Port of sshd on the hosts."},
      {"ssh-identity-file", {"-i", "--ssh-identity-file"}, 1, true, kSsh, "FILE", "Private key for the hosts."},
      {"ssh-backend",
       {"--ssh-backend"},
       1,
       true,
       kSsh,
       "auto|libssh|ssh",
       "Built-in ssh client or the ssh program. auto: built-in, and ssh for hosts whose configuration needs it."},
      {"agent-link",
       {"--agent-link"},
       1,
       true,
       kSsh,
       "auto|ssh|dial",
       "How the hosts' agents talk to hvdrun: through ssh, or by an own connection. auto: own, else ssh."},
      {"agent-dir",
       {"--agent-dir"},
       1,
       true,
       kSsh,
       "DIR",
       "Where the agent program is kept on the hosts (default ~/.cache/muster)."},

      {"env",
       {"--env", "-x"},
       1,
       true,
       kProgram,
       "NAME[=VAL]",
       "Send this variable to the ranks, even one that is not sent by default. Repeatable."},
      {"env-none", {"--env-none"}, 0, true, kProgram, "", "Send only the variables that --env names."},
      {"wdir", {"--wdir"}, 1, true, kProgram, "DIR", "Working directory of the ranks (default: the current one)."},

      {"output-filename",
       {"--output-filename"},
       1,
       true,
       kOutput,
       "DIR",
       "Also write DIR/rank.NN/stdout and DIR/rank.NN/stderr, on this machine."},
      {"prefix-output-with-timestamp",
       {"-prefix-timestamp", "--prefix-output-with-timestamp"},
       0,
       true,
       kOutput,
       "",
       "Put the time before each line of the ranks."},
      {"verbose", {"--verbose"}, 0, true, kOutput, "", "Say what happens on each host, and show the table of ranks."},

      {"start-timeout",
       {"--start-timeout"},
       1,
       true,
       kLife,
       "TIME",
       "Give up if the hosts are not all up within this time (default 30s)."},
      {"timeout", {"--timeout"}, 1, true, kLife, "TIME", "Stop the job after this time; the exit code is then 124."},
      {"kill-grace",
       {"--kill-grace"},
       1,
       true,
       kLife,
       "TIME",
       "Time between SIGTERM and SIGKILL when the job is stopped (default 5s)."},
      {"on-exit",
       {"--on-exit"},
       1,
       true,
       kLife,
       "RULE",
       "What ends the job: nonzero-kill (a rank that fails; the default), any-kill (any rank that ends), wait (only "
       "the "
       "end of all ranks)."},
      {"contain",
       {"--contain"},
       1,
       true,
       kLife,
       "LEVEL",
       "How ranks and all that they start are held together: auto, cgroup, pidns (as root), subreaper."},

      {"version", {"-v", "--version"}, 0, true, kGeneral, "", "Print the version."},
      {"help", {"-h", "--help"}, 0, true, kGeneral, "", "Print this text."},
  };
}

std::vector<Flag> make_absent_flags() {
  return {
      absent("check-build", {"-cb", "--check-build"}, 0),
      absent("disable-cache", {"--disable-cache"}, 0),
      absent("network-interfaces", {"--network-interfaces"}, 1),
      absent("network-interface", {"--network-interface"}, 1),
      absent("config-file", {"--config-file"}, 1),
      absent("host-discovery-script", {"--host-discovery-script"}, 1),
      absent("gloo", {"--gloo"}, 0),
      absent("mpi", {"--mpi"}, 0),
      absent("jsrun", {"--jsrun"}, 0),
      absent("min-num-proc", {"--min-np", "--min-num-proc"}, 1),
      absent("max-num-proc", {"--max-np", "--max-num-proc"}, 1),
      absent("slots-per-host", {"--slots-per-host"}, 1),
      absent("elastic-timeout", {"--elastic-timeout"}, 1),
      absent("reset-limit", {"--reset-limit"}, 1),
      absent("blacklist-cooldown-range", {"--blacklist-cooldown-range"}, 2),
      absent("fusion-threshold-mb", {"--fusion-threshold-mb"}, 1),
      absent("cycle-time-ms", {"--cycle-time-ms"}, 1),
      absent("cache-capacity", {"--cache-capacity"}, 1),
      absent("hierarchical-allreduce", {"--hierarchical-allreduce", "--no-hierarchical-allreduce"}, 0),
      absent("hierarchical-allgather", {"--hierarchical-allgather", "--no-hierarchical-allgather"}, 0),
      absent("torus-allreduce", {"--torus-allreduce", "--no-torus-allreduce"}, 0),
      absent("autotune", {"--autotune", "--no-autotune"}, 0),
      absent("autotune-log-file", {"--autotune-log-file"}, 1),
      absent("autotune-warmup-samples", {"--autotune-warmup-samples"}, 1),
      absent("autotune-steps-per-sample", {"--autotune-steps-per-sample"}, 1),
      absent("autotune-bayes-opt-max-samples", {"--autotune-bayes-opt-max-samples"}, 1),
      absent("autotune-gaussian-process-noise", {"--autotune-gaussian-process-noise"}, 1),
      absent("timeline-filename", {"--timeline-filename"}, 1),
      absent("timeline-mark-cycles", {"--timeline-mark-cycles", "--no-timeline-mark-cycles"}, 0),
      absent("stall-check", {"--stall-check", "--no-stall-check"}, 0),
      absent("stall-check-warning-time-seconds", {"--stall-check-warning-time-seconds"}, 1),
      absent("stall-check-shutdown-time-seconds", {"--stall-check-shutdown-time-seconds"}, 1),
      absent("mpi-threads-disable", {"--mpi-threads-disable", "--no-mpi-threads-disable"}, 0),
      absent("mpi-args", {"--mpi-args"}, 1),
      absent("tcp", {"--tcp"}, 0),
      absent("binding-args", {"--binding-args"}, 1),
      absent("num-nccl-streams", {"--num-nccl-streams"}, 1),
      absent("thread-affinity", {"--thread-affinity"}, 1),
      absent("gloo-timeout-seconds", {"--gloo-timeout-seconds"}, 1),
      absent("log-level", {"--log-level"}, 1),
      absent("log-with-timestamp", {"--log-with-timestamp", "--log-without-timestamp", "--log-hide-timestamp"}, 0),
  };
}

std::vector<Flag> make_flags() {
  std::vector<Flag> flags = make_active_flags();
  std::ranges::move(make_absent_flags(), std::back_inserter(flags));
  return flags;
}

}  // namespace

std::span<const Flag> all_flags() {
  static const std::vector<Flag> kFlags = make_flags();
  return kFlags;
}

const Flag* find_flag(std::string_view spelling) {
  for (const Flag& flag : all_flags()) {
    if (std::ranges::find(flag.spellings, spelling) != flag.spellings.end()) return &flag;
  }
  return nullptr;
}

std::vector<std::string> all_spellings() {
  std::vector<std::string> spellings;
  for (const Flag& flag : all_flags()) spellings.insert(spellings.end(), flag.spellings.begin(), flag.spellings.end());
  return spellings;
}

}  // namespace muster::cli
