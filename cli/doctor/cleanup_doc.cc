// The help text of `muster cleanup`.
#include "cli/doctor/cleanup.h"

namespace muster::cli::inline doctor {

const CommandDoc& cleanup_doc() {
  static const CommandDoc kDoc = {
      .name = "muster cleanup",
      .summary = "end what dead jobs have left on hosts",
      .usage = "[options]",
      .description =
          "Logs in to all hosts at the same time and looks for what jobs of yours that no longer live have left there: "
          "processes, session directories, sockets of launchers that were killed, empty cgroups, and files in /dev/shm "
          "that are named after a job. Prints a table of it, ends it, and looks again whether it is gone. Nothing has "
          "to run for that, neither a launcher nor an agent.\n\n"
          "Each host decides by itself whether a job lives: while its agent or the parent of its ranks holds the lock "
          "in the session directory, and until the job's lease has passed, nothing of it is touched, also not with "
          "--job. What is left must be so in two looks, 2 s apart. A process belongs to a job by MUSTER_JOB_ID in its "
          "environment, by its cgroup or session as noted by the job, or as a child of such a process. Processes of "
          "other users, launchers, sshd and whatever has called this command are never candidates.",
      .groups = {{FlagGroup::kHosts, "Hosts"},
                 {FlagGroup::kSsh, "Reaching the hosts"},
                 {FlagGroup::kOutput, "Output"},
                 {FlagGroup::kLife, "As for a job"},
                 {FlagGroup::kGeneral, "General"}},
      .table = &cleanup_flags(),
      .notes =
          "Without -H and --hostfile: this host. Settings come from configuration files and MUSTER_ variables as for "
          "hvdrun. A host that cannot be asked is listed as unknown, not as clean.\n\n"
          "Not found: a process that has left its rank's session and emptied its environment, unless a cgroup holds "
          "it; "
          "System V segments; files in /dev/shm with other names; GPU memory without a process: muster doctor names "
          "it.",
      .examples = {{"muster cleanup", "this host"},
                   {"muster cleanup -H n1,n2,n3 --dry-run", "what would be ended"},
                   {"muster cleanup --hostfile hosts --job k3vq7xwb", ""}},
      .exit_codes = {{"0", "nothing is left"},
                     {"1", "something is left, or found with --dry-run; a host could not be asked"},
                     {"2", "wrong command line or configuration, or the job is not known or not unique"},
                     {"125", "no host could be asked"}},
  };
  return kDoc;
}

}  // namespace muster::cli::doctor
