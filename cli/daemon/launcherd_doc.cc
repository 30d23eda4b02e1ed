// The help text of launcherd.
#include "cli/daemon/launcherd_options.h"

namespace muster::cli::inline daemon {

const CommandDoc& launcherd_doc() {
  static const CommandDoc kDoc = {
      .name = "launcherd",
      .summary = "run submitted jobs on a set of hosts",
      .usage = "[--hostfile FILE | -H HOSTS] [options]",
      .description =
          "Takes jobs from muster submit, hvdrun --launcher and schedulers, queues them until slots are free, runs "
          "them, and keeps their results. It stays in the foreground and runs the jobs of one user. A line on stderr "
          "says when it is ready.\n\nJobs start by priority, then in the order of submission. A job that fits may "
          "start while an earlier one waits. An accepted job is on disk before launcherd answers with its id. Jobs "
          "outlive launcherd: when it ends, running jobs continue and waiting jobs stay, and the next launcherd with "
          "the same state resumes them. Only jobs submitted with --on-launcher-loss kill end with it. SIGHUP makes it "
          "read the hostfile and the files of --listen again.",
      .groups = {{FlagGroup::kHosts, "Hosts"},
                 {FlagGroup::kSsh, "Reaching the hosts"},
                 {FlagGroup::kOutput, "Output"},
                 {FlagGroup::kGeneral, "General"}},
      .table = &launcherd_flags(),
      .notes =
          "Each option is a key of launcherd.yaml, with '_' for '-': http: 127.0.0.1:7480. The file is read from "
          "/etc/muster, then from ~/.config/muster, or from --config-file.\n\nWithout -H and --hostfile: the hosts of "
          "the scheduler's allocation that surrounds launcherd, else this host "
          "with one slot for each processor. A host listed once and without a number of slots gets one slot for each "
          "GPU, or one slot if it has none; launcherd asks its agent at the start.",
      .examples =
          {{"launcherd", "this host"},
           {"launcherd --hostfile hosts", "all hosts of a file, with their slots"},
           {"launcherd --check", "what launcherd.yaml and the other files say, and what is wrong with them"},
           {"launcherd -H n1:4,n2:4 --listen unix:/run/user/1000/muster/lab.sock --state /var/tmp/lab",
            "a second launcherd, with a socket and a state of its own"},
           {"launcherd --hostfile hosts --listen 0.0.0.0:7400 --tls-cert s.pem --tls-key s.key --client-ca ca.pem",
            "by TCP, for clients with a certificate"}},
      .exit_codes = {{"0", "ended by a signal"},
                     {"2", "wrong command line, configuration or host list; a file cannot be read"},
                     {"125",
                      "launcherd cannot run: another launcherd uses the state or the socket, or an address is taken"}},
      .most_used = {"hosts", "hostfile", "ssh-port", "state", "listen", "http", "accept-agents", "verbose",
                    "config-file", "version"},
  };
  return kDoc;
}

}  // namespace muster::cli::daemon
