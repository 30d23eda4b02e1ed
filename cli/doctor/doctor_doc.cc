// The help text of `muster doctor`.
#include "cli/doctor/doctor.h"

namespace muster::cli::inline doctor {

const CommandDoc& doctor_doc() {
  static const CommandDoc kDoc = {
      .name = "muster doctor",
      .summary = "look for what would keep jobs from running on hosts",
      .usage = "[options]",
      .description =
          "Logs in to all hosts at the same time, as a job would, looks around and runs nothing there but python3 to "
          "ask for its version. Prints a table for each host: what was checked, ok, warn or FAIL, what was seen, and "
          "for everything that is not ok what to do about it; then what differs between the hosts.\n\n"
          "Checked are the name, ssh, the connection back to this machine and which link a job would use, whether the "
          "hosts reach the first one, clocks, limits, room on disk, in the home and in /dev/shm, the kernel, how jobs "
          "are contained, logind, cores, GPUs, networks, and the versions of python and torch.",
      .groups = {{FlagGroup::kHosts, "Hosts"},
                 {FlagGroup::kSsh, "Reaching the hosts"},
                 {FlagGroup::kProgram, "The environment in which python3 is looked for"},
                 {FlagGroup::kOutput, "Output"},
                 {FlagGroup::kLife, "As for a job"},
                 {FlagGroup::kGeneral, "General"}},
      .table = &doctor_flags(),
      .notes =
          "Without -H and --hostfile: the hosts of the Slurm, PBS or Cobalt job around, else this one. Settings come "
          "from configuration files and MUSTER_ variables as for hvdrun.",
      .examples = {{"muster doctor -H n1,n2,n3", ""},
                   {"muster doctor --hostfile hosts --ssh-port 2222", ""},
                   {"muster doctor", "this host, or the hosts of the job that a scheduler started"},
                   {"muster doctor -H 'gpu[01-16]' --json | jq -r 'select(.state != \"CHECK_STATE_OK\") | .host'",
                    "the hosts that are not all right"}},
      .exit_codes = {{"0", "all is ok, or there are only warnings"},
                     {"1", "a check of a host failed, or a host did not answer"},
                     {"2", "wrong command line or configuration"},
                     {"125", "no host answered, or the output could not be written"}},
  };
  return kDoc;
}

}  // namespace muster::cli::doctor
