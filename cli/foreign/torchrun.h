// `muster torchrun`: converts command lines of torchrun and torch.distributed.launch into a job that hvdrun runs. One
// command starts the ranks on all hosts, instead of one command on each.
//
//   muster torchrun --nproc_per_node=4 -H n1,n2 train.py --epochs 3
//   muster torchrun -H n1,n2 python3 -m torch.distributed.launch --nproc_per_node=4 --nnodes=2 train.py
//
// The whole old command line may follow our options. A leading `torchrun`, `python -m torch.distributed.run` or
// `….launch` is recognised.
// For `torch.distributed.launch` the script's first argument is --local-rank=N, unless --use_env is given. It is
// --local_rank=N if the rank's torch is older than 2.0.
// Options that torchrun needs on each node (--node_rank, --master_addr, --rdzv_…) are accepted, with a note that they
// are not needed. torchrun's PET_<OPTION> variables set its options here, too.
#pragma once

#include <string>
#include <vector>

#include "base/env.h"
#include "cli/help/command_doc.h"
#include "cli/options/options.h"

namespace muster::cli::inline foreign {

// Returns the options of `muster torchrun`: torchrun's, torch.distributed.launch's, and those of hvdrun that do not set
// the number of ranks.
const FlagTable& torchrun_flags();

// `verb` is "torchrun" or "torch.distributed.launch". The latter selects that launcher's behaviour without its name in
// the arguments. Mistakes begin with "muster <verb>: ".
ParsedHvdrun parse_torchrun(const std::string& verb, const std::vector<std::string>& arguments,
                            const base::Environment& environment, const ParseContext& context);

const CommandDoc& torchrun_doc();

}  // namespace muster::cli::foreign
