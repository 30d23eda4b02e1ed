// The help text of `muster cleanup`.
#include "cli/doctor/cleanup.h"

namespace muster::cli::inline doctor {

const CommandDoc& cleanup_doc() {
  static const CommandDoc kDoc = {
      .name = "muster cleanup",
      .summary = "find and end what dead jobs left on hosts",
      .usage = "[options]",
      .description =
          "Logs in to all hosts at the same time and searches for strays: what dead jobs of yours left there. Strays "
          "are processes, session directories, sockets of killed launchers, empty cgroups, and files in /dev/shm that "
          "bear a job's name. Prints a table of them, ends them, and checks that they are gone. This needs neither a "
          "launcher nor a running agent.\n\nEach host decides by itself whether a job is alive. A job is alive while "
          "its agent, or the parent of its ranks, holds the lock in the session directory, and until its lease has "
          "passed. Nothing of a live job is touched, not even with --job. A stray must be found twice, 2 s apart. A "
          "process belongs to a job if its environment has the job's MUSTER_JOB_ID, if it is in a cgroup or session "
          "that the job recorded, or if it is a child of such a process. Processes of other users, launchers, sshd and "
          "the callers of this command are never ended.",
      .groups = {{FlagGroup::kHosts, "Hosts"},
                 {FlagGroup::kSsh, "Reaching the hosts"},
                 {FlagGroup::kOutput, "Output"},
                 {FlagGroup::kLife, "As for a job"},
                 {FlagGroup::kGeneral, "General"}},
      .table = &cleanup_flags(),
      .notes =
          "Without -H and --hostfile: this host. Settings come from configuration files and MUSTER_ variables as for "
          "hvdrun. A host that does not answer is listed as unknown, not as clean.\n\nNot found: a process that left "
          "its rank's session and emptied its environment, unless a cgroup holds it; System V segments; files in "
          "/dev/shm with other names. Nor is GPU memory without a process: muster doctor names it.",
      .examples = {{"muster cleanup", "this host"},
                   {"muster cleanup -H n1,n2,n3 --dry-run", "only show what would be ended"},
                   {"muster cleanup --hostfile hosts --job k3vq7xwb", "only what one job left"}},
      .exit_codes = {{"0", "nothing is left"},
                     {"1", "something is left, or was found with --dry-run; or a host did not answer"},
                     {"2", "wrong command line or configuration; no such job, or several jobs begin so"},
                     {"125", "no host answered"}},
      .most_used = {"hosts", "hostfile", "job", "dry-run", "json", "ssh-port", "verbose"},
  };
  return kDoc;
}

}  // namespace muster::cli::doctor
