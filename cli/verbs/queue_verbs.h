// The verbs on launcherd's queue: `muster hold`, `release`, `update` and `rerun`.
// Each run_…() returns its exit code: 2 for a mistake in the command line, an unknown job, or a refusal.
#pragma once

#include <string>
#include <vector>

#include "cli/help/command_doc.h"

namespace muster::cli::inline verbs {

int run_hold(const std::string& verb, const std::vector<std::string>& arguments);
int run_release(const std::string& verb, const std::vector<std::string>& arguments);
int run_update(const std::string& verb, const std::vector<std::string>& arguments);
int run_rerun(const std::string& verb, const std::vector<std::string>& arguments);

const CommandDoc& hold_doc();
const CommandDoc& release_doc();
const CommandDoc& update_doc();
const CommandDoc& rerun_doc();

}  // namespace muster::cli::verbs
