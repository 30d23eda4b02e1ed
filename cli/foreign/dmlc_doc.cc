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
          "Takes the command lines of MXNet's and dmlc's launch.py: a scheduler, servers and workers run the command, "
          "told apart by DMLC_ROLE. The exit code is that of the rank that failed; when the workers have ended, or one "
          "process has failed, nothing is left on any host.\n\n"
          "The command is a line for a shell, as launch.py takes it; several words are joined by blanks.",
      .groups = with_run_groups({{FlagGroup::kTorch, "launch.py's options"}}),
      .table = &dmlc_flags(),
      .notes =
          "Options end at the first word that is not one of them. The scheduler runs on the first host; with "
          "launch.py it ran where it was called.",
      .examples = {{"muster dmlc -n 2 -s 2 -H hosts --launcher ssh \"python cifar10_dist.py\"", ""},
                   {"muster dmlc -n 4 --launcher local python train.py --kv-store dist_sync", ""}},
      .exit_codes = hvdrun_doc().exit_codes,
  };
  return kDoc;
}

}  // namespace muster::cli::foreign
