// The options of launch.py, both MXNet's and dmlc's.
#include <algorithm>
#include <array>

#include "cli/foreign/dmlc.h"
#include "cli/help/flag_row.h"
#include "cli/options/hvdrun_flags.h"

namespace muster::cli::inline foreign {
namespace {

using enum FlagGroup;

// Options of hvdrun that `muster dmlc` leaves out: launch.py names them otherwise, or they ask about hvdrun itself.
constexpr auto kNotOfDmlc =
    std::to_array<std::string_view>({"launcher", "elastic-policy", "num-proc", "ranks-per-node", "num-workers",
                                     "num-servers", "runtime", "hosts", "hostfile", "env", "help", "short-help",
                                     "version", "man", "completion", "check-build", "self-test", "template", "set"});

std::vector<FlagRow> dmlc_rows() {
  return {
      option("num-workers", {"-n", "--num-workers"}, "N", "Workers; they go round the hosts, after the servers."),
      option("num-servers", {"-s", "--num-servers"}, "N", "Servers (default: as many as workers)."),
      option("hostfile", {"-H", "--hostfile", "--host-file"}, "FILE",
             "Hosts, one a line: name, or name:SSHPORT; the scheduler runs on the first.")
          .completes(Completes::kFile),
      option("server-hostfile", {"-SH", "--server-hostfile"}, "FILE", "Other hosts for the servers, likewise.")
          .completes(Completes::kFile),
      option("sync-dst-dir", {"--sync-dst-dir"}, "DIR",
             "Put the current directory into this one on the hosts before the start, and run there.")
          .completes(Completes::kDirectory),
      option("launcher", {"--launcher", "--cluster"}, "ssh|local|mpi|sge|yarn|slurm",
             "ssh: on the hosts of -H, or of the allocation. local: all on this host.")
          .standard("ssh"),
      option("env", {"--env", "-x"}, "NAME[:VALUE]", "Send this variable to all; most are sent anyway. Repeatable.")
          .repeats(Repeat::kAddsUpOverAll),
      option("env-server", {"--env-server"}, "NAME:VALUE", "A variable of the servers alone. Repeatable.")
          .repeats(Repeat::kAddsUpOverAll),
      option("env-worker", {"--env-worker"}, "NAME:VALUE", "A variable of the workers alone. Repeatable.")
          .repeats(Repeat::kAddsUpOverAll),
      toggle("p3", {{"--p3", "true"}}, "Priority-based parameter propagation: DMLC_PS_VAN_TYPE=p3, and Linux's epoll."),
      toggle("byteps-launch", {{"--byteps-launch", "true"}}, "BytePS is not served.")
          .refusal("BytePS starts its processes in its own way, which is not served: use its own launcher"),
  };
}

}  // namespace

const FlagTable& dmlc_flags() {
  static const FlagTable kTable = [] {
    std::vector<Flag> flags;
    add_group(kTorch, dmlc_rows(), flags);
    add_group(kGeneral, help_rows(), flags);
    for (const Flag& flag : hvdrun_flags().flags()) {
      const bool is_taken = std::ranges::any_of(flags, [&](const Flag& own) { return own.name == flag.name; });
      if (!is_taken && std::ranges::find(kNotOfDmlc, flag.name) == kNotOfDmlc.end()) flags.push_back(flag);
    }
    return FlagTable(std::move(flags), {{.completes = Completes::kCommand}});
  }();
  return kTable;
}

}  // namespace muster::cli::foreign
