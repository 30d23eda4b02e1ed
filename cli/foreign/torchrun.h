// `muster torchrun`: takes the command lines of torchrun and torch.distributed.launch and makes of them the job that
// hvdrun runs: one command for all hosts instead of one on each.
//
//   muster torchrun --nproc_per_node=4 -H n1,n2 train.py --epochs 3
//   muster torchrun -H n1,n2 python3 -m torch.distributed.launch --nproc_per_node=4 --nnodes=2 train.py
//
// The whole old command line may follow our options: a leading `torchrun`, or `python -m torch.distributed.run` or
// `….launch`, is recognised. As `torch.distributed.launch` the script's first argument is --local-rank=N, or
// --local_rank=N where the rank's torch is older than 2.0, unless --use_env is given. What each node would have to be
// told
// (--node_rank, --master_addr, --rdzv_…) is accepted, and said not to be needed. torchrun's PET_<OPTION> variables set
// its options here, too.
#pragma once

#include <string>
#include <vector>

#include "base/env.h"
#include "cli/help/command_doc.h"
#include "cli/options/options.h"

namespace muster::cli::inline foreign {

// Those of `muster torchrun`: torchrun's and torch.distributed.launch's, and hvdrun's that do not say how many ranks.
const FlagTable& torchrun_flags();

// `verb`: "torchrun", or "torch.distributed.launch" for that one's behaviour without naming it again. Mistakes begin
// with "muster <verb>: ".
ParsedHvdrun parse_torchrun(const std::string& verb, const std::vector<std::string>& arguments,
                            const base::Environment& environment, const ParseContext& context);

const CommandDoc& torchrun_doc();

}  // namespace muster::cli::foreign
