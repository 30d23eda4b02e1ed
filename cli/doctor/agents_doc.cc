// The help text of `muster agents`.
#include "cli/doctor/agents.h"

namespace muster::cli::inline doctor {

const CommandDoc& agents_doc() {
  static const CommandDoc kDoc = {
      .name = "muster agents",
      .summary = "list the agent programs stored on hosts, and remove old ones",
      .usage = "[prune] [options]",
      .description =
          "Each build of Muster stores its agent program once on each host, below ~/.cache/muster. It has about 16 MB. "
          "Without a word this lists these programs, and the environments of --stage-env on the hosts' disks. prune "
          "removes programs of other builds, and environments that no job uses.\n\nA program stays if an "
          "agent runs from it. Each agent marks its program as used when it starts and then once an hour. So prune "
          "also "
          "spares a program that runs on another host with the same home directory.\n\nProgram files that were not "
          "used "
          "for 30 days are removed when a new build stores its agent on the host.",
      .groups = {{FlagGroup::kHosts, "Hosts"},
                 {FlagGroup::kSsh, "Reaching the hosts"},
                 {FlagGroup::kOutput, "Output"},
                 {FlagGroup::kLife, "As for a job"},
                 {FlagGroup::kGeneral, "General"}},
      .table = &agents_flags(),
      .notes =
          "Without -H and --hostfile: this host. Settings come from configuration files and MUSTER_ variables as for "
          "hvdrun.",
      .examples = {{"muster agents -H n1,n2", "what is stored on two hosts"},
                   {"muster agents prune --hostfile hosts", "remove what no agent has used for a day"},
                   {"muster agents prune --unused-for 168h", "on this host, what was not used for a week"}},
      .exit_codes = {{"0", "listed, or removed what can be removed"},
                     {"1", "a program could not be removed, or a host did not answer"},
                     {"2", "wrong command line or configuration"},
                     {"125", "no host answered"}},
  };
  return kDoc;
}

}  // namespace muster::cli::doctor
