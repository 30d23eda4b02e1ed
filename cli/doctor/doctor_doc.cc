// The help text of `muster doctor`.
#include "cli/doctor/doctor.h"

namespace muster::cli::inline doctor {

const CommandDoc& doctor_doc() {
  static const CommandDoc kDoc = {
      .name = "muster doctor",
      .summary = "check whether jobs can run on hosts",
      .usage = "[options]",
      .description =
          "Logs in to all hosts at the same time, as a job would, and reads facts. It runs nothing there except "
          "python3, to get its version. Prints a table for each host: each check with ok, warn or FAIL and the value "
          "found. For everything that is not ok it prints the fix. Then it prints what differs between the "
          "hosts.\n\nIt checks the name, ssh, the connection back to this machine, the link that a job would use, "
          "whether the hosts reach the first one, clocks, limits, free space on disk, in the home and in /dev/shm, the "
          "kernel, how jobs are contained, logind, cores, GPUs, networks, and the versions of python and torch.",
      .groups = {{FlagGroup::kHosts, "Hosts"},
                 {FlagGroup::kSsh, "Reaching the hosts"},
                 {FlagGroup::kProgram, "The environment that is searched for python3"},
                 {FlagGroup::kOutput, "Output"},
                 {FlagGroup::kLife, "As for a job"},
                 {FlagGroup::kGeneral, "General"}},
      .table = &doctor_flags(),
      .notes =
          "Without -H and --hostfile: the hosts of the surrounding Slurm, PBS or Cobalt job, else this host. Settings "
          "come from configuration files and MUSTER_ variables as for hvdrun.",
      .examples = {{"muster doctor -H n1,n2,n3", "three hosts"},
                   {"muster doctor --hostfile hosts --ssh-port 2222", "the hosts of a file, by another port"},
                   {"muster doctor", "this host, or the hosts of the job that a scheduler started"},
                   {"muster doctor -H 'gpu[01-16]' --json | jq -r 'select(.state != \"CHECK_STATE_OK\") | .host'",
                    "the hosts that have a problem"}},
      .exit_codes = {{"0", "all checks passed, perhaps with warnings"},
                     {"1", "a check of a host failed, or a host did not answer"},
                     {"2", "wrong command line or configuration"},
                     {"125", "no host answered, or the output could not be written"}},
      .most_used = {"hosts", "hostfile", "network", "ssh-port", "ssh-identity-file", "json", "verbose"},
  };
  return kDoc;
}

}  // namespace muster::cli::doctor
