// The help text of launcherd.
#include "cli/daemon/launcherd_options.h"

namespace muster::cli::inline daemon {

const CommandDoc& launcherd_doc() {
  static const CommandDoc kDoc = {
      .name = "launcherd",
      .summary = "run jobs that others submit, on hosts that it was given",
      .usage = "[--hostfile FILE | -H HOSTS] [options]",
      .description =
          "Takes jobs from muster submit, hvdrun --launcher and schedulers, lets them wait until there are slots, runs "
          "them, and keeps what became of them. It stays in the foreground and belongs to one user, whose jobs it "
          "runs; "
          "a line on stderr says when it is ready.\n\n"
          "Jobs start by priority, then in the order of their submission; a job that fits may start while one before "
          "it waits. An accepted job is on the disk before its id is answered. Jobs outlive launcherd: when it ends, "
          "those that run go on and those that wait stay, and the next launcherd on the same state takes them up; only "
          "jobs that ask for it are ended with it. SIGHUP reads the hostfile and the files of --listen again.",
      .groups = {{FlagGroup::kHosts, "Hosts"},
                 {FlagGroup::kSsh, "Reaching the hosts"},
                 {FlagGroup::kOutput, "Output"},
                 {FlagGroup::kGeneral, "General"}},
      .table = &launcherd_flags(),
      .notes =
          "Without -H and --hostfile: the hosts of the scheduler's allocation around it, else this host with a slot "
          "for "
          "each of its processors. A host that is named once and without a number of slots has as many as GPUs, else "
          "one: its "
          "agent is asked at the start.",
      .examples =
          {{"launcherd", "this host"},
           {"launcherd --hostfile hosts", "all hosts of a file, with their slots"},
           {"launcherd -H n1:4,n2:4 --listen unix:/run/user/1000/muster/lab.sock --state /var/tmp/lab", ""},
           {"launcherd --hostfile hosts --listen 0.0.0.0:7400 --tls-cert s.pem --tls-key s.key --client-ca ca.pem",
            "by TCP, for who has a certificate"}},
      .exit_codes = {{"0", "ended by a signal"},
                     {"2", "wrong command line, configuration or host list; a file cannot be read"},
                     {"125", "it cannot work: another launcherd uses the state or the socket, an address is taken"}},
  };
  return kDoc;
}

}  // namespace muster::cli::daemon
