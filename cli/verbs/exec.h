// `muster exec` and `muster shell`: a command, or a shell, beside a rank of a running job.
#pragma once

#include <string>
#include <vector>

#include "cli/help/command_doc.h"

namespace muster::cli::inline verbs {

const CommandDoc& exec_doc();
const CommandDoc& shell_doc();

// Both return the exit code of the command.
int run_exec_verb(const std::string& verb, const std::vector<std::string>& arguments);
int run_shell(const std::string& verb, const std::vector<std::string>& arguments);

}  // namespace muster::cli::verbs
