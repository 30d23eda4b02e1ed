// Asks a launcher by its Unix socket. Blocks; any thread.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "proto/muster/v1/job.pb.h"

namespace muster::launcherd {

// `ranks` empty: all. The error is the launcher's own sentence, or says that it cannot be reached.
base::Status fetch_stacks(const std::string& socket_path, const std::vector<int>& ranks, std::chrono::seconds patience,
                          const std::function<void(const v1::ProcessStack&)>& on_process);

}  // namespace muster::launcherd
