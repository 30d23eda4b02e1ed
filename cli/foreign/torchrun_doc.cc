// The help text of `muster torchrun`.
#include "cli/foreign/torchrun.h"
#include "cli/options/hvdrun_flags.h"

namespace muster::cli::inline foreign {

const CommandDoc& torchrun_doc() {
  static const CommandDoc kDoc = {
      .name = "muster torchrun",
      .summary = "run a torch program on all hosts with one command",
      .usage = "[options] [torchrun | python -m torch.distributed.launch] [options] script [arguments]",
      .description =
          "Takes the command lines of torchrun and of torch.distributed.launch. It starts the ranks on all hosts from "
          "here, so you type it once. Options that torchrun needs on each host, such as --node-rank, are accepted and "
          "ignored. The rest is as with hvdrun.\n\nAs torch.distributed.launch, it puts --local-rank=N in front of the "
          "script's arguments, unless --use_env is given. It is --local_rank=N if the rank's torch is older than 2.0. "
          "This mode is chosen by naming torch.distributed.launch in the command line, or by calling muster "
          "torch.distributed.launch.",
      .groups = with_run_groups(
          {{FlagGroup::kTorch, "torch's options"}, {FlagGroup::kTorchUnneeded, "Accepted, and not needed"}}),
      .table = &torchrun_flags(),
      .notes =
          "STREAMS: 0 none, 1 stdout, 2 stderr, 3 both; or RANK:STREAMS,… for local ranks. Variables PET_<OPTION> set "
          "torch's options as they do for torchrun. Options end at the first word that is not an option.\n\nTo run "
          "torchrun itself on every host, with its own agent, make it hvdrun's program: hvdrun -np 2 -H n1:1,n2:1 "
          "torchrun --nproc-per-node 4 train.py. Its nodes find each other without options.",
      .examples =
          {{"muster torchrun --nproc-per-node 4 train.py --epochs 3", "four ranks on this host"},
           {"muster torchrun -H n1,n2 --log-dir logs --log-layout torchrun -t 3 train.py",
            "Write the log files where torchrun's agents would."},
           {"muster torchrun -H n1,n2 --nproc_per_node=4 train.py", "four ranks on each of two hosts"},
           {"muster torchrun -H n1,n2 python3 -m torch.distributed.launch --nproc_per_node=4 --nnodes=2 train.py",
            "an older command line, as it is"}},
      .exit_codes = hvdrun_doc().exit_codes,
      .most_used = {"nproc-per-node", "nnodes", "module", "max-restarts", "log-dir", "tee", "hosts", "hostfile", "env",
                    "timeout", "dry-run"},
  };
  return kDoc;
}

}  // namespace muster::cli::foreign
