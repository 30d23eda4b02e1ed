// hvdrun's options and what there is to say about the command. Constant data; any thread.
#pragma once

#include <vector>

#include "cli/help/command_doc.h"

namespace muster::cli::inline options {

// hvdrun's: all of horovodrun 0.28.1's options, and ours.
const FlagTable& hvdrun_flags();
const CommandDoc& hvdrun_doc();

// The groups of options that every command which runs ranks from here has, after those of its own.
std::vector<GroupTitle> with_run_groups(std::vector<GroupTitle> own);

// The rows of hvdrun_flags(), by the file that holds them.
void add_launch_flags(std::vector<Flag>& flags);   // flags_launch.cc
void add_horovod_flags(std::vector<Flag>& flags);  // flags_horovod.cc
void add_general_flags(std::vector<Flag>& flags);  // flags_general.cc

}  // namespace muster::cli::options
