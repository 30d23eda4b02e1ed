// The verbs that only launcherd answers: `muster submit`, `wait`, `logs`, `attach`, `hosts`. Each verb has a file of
// its own, and returns its exit code.
#pragma once

#include <string>
#include <vector>

#include "cli/help/command_doc.h"

namespace muster::cli::inline verbs {

int run_wait(const std::string& verb, const std::vector<std::string>& arguments);
int run_logs(const std::string& verb, const std::vector<std::string>& arguments);
int run_attach(const std::string& verb, const std::vector<std::string>& arguments);
int run_hosts(const std::string& verb, const std::vector<std::string>& arguments);

const CommandDoc& wait_doc();
const CommandDoc& logs_doc();
const CommandDoc& attach_doc();
const CommandDoc& hosts_doc();

}  // namespace muster::cli::verbs
