// hvdrun's options and its help text.
// Thread: any; the data is constant.
#pragma once

#include <vector>

#include "cli/help/command_doc.h"

namespace muster::cli::inline options {

// Returns all options of horovodrun 0.28.1, and Muster's own.
const FlagTable& hvdrun_flags();
const CommandDoc& hvdrun_doc();

// Appends the option groups that every command has which runs ranks itself. `own` stays in front.
std::vector<GroupTitle> with_run_groups(std::vector<GroupTitle> own);

// These add the rows of hvdrun_flags(). The trailing comment names the file that holds the rows.
void add_launch_flags(std::vector<Flag>& flags);   // flags_launch.cc
void add_horovod_flags(std::vector<Flag>& flags);  // flags_horovod.cc
void add_general_flags(std::vector<Flag>& flags);  // flags_general.cc

}  // namespace muster::cli::options
