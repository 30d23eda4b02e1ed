// The help text of `muster dmlc`.
#include "cli/foreign/dmlc.h"
#include "cli/options/hvdrun_flags.h"

namespace muster::cli::inline foreign {

const CommandDoc& dmlc_doc() {
  static const CommandDoc kDoc = {
      .name = "muster dmlc",
      .summary = "run MXNet's parameter server on all hosts; takes launch.py's command lines",
      .usage = "[options] [launch.py] [options] command",
      .description =
          "Takes the command lines of launch.py, both MXNet's and dmlc's. A scheduler, servers and workers all run the "
          "same command; DMLC_ROLE tells each process its role. The exit code is that of the rank that failed. When "
          "the workers end, or one process fails, Muster ends the rest on all hosts.\n\nThe command is a line for a "
          "shell, as with launch.py. Several words are joined by blanks.",
      .groups = with_run_groups({{FlagGroup::kTorch, "launch.py's options"}}),
      .table = &dmlc_flags(),
      .notes =
          "Options end at the first word that is not an option. The scheduler runs on the first host; launch.py runs "
          "it where it was called.",
      .examples = {{"muster dmlc -n 2 -s 2 -H hosts --launcher ssh \"python cifar10_dist.py\"",
                    "two workers and two servers on the hosts of a file"},
                   {"muster dmlc -n 4 --launcher local python train.py --kv-store dist_sync", "all on this host"}},
      .exit_codes = hvdrun_doc().exit_codes,
      .most_used = {"num-workers", "num-servers", "hostfile", "launcher", "env", "env-server", "env-worker",
                    "sync-dst-dir", "timeout", "dry-run"},
  };
  return kDoc;
}

}  // namespace muster::cli::foreign
