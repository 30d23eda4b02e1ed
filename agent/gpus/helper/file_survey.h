// Who uses AMD's and Intel's GPUs of this host, and how busy they are, as the kernel's files show it.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "agent/gpus/report.h"

namespace muster::agent::inline gpus {

// AMD's, then Intel's, by index. In the bounds of decode_report(). Of processes of other users than `uid` only what the
// kernel shows to everybody; 0 sees all. May hang in a driver.
std::vector<FileGpu> survey_files(uid_t uid, const std::string& root = "");

// NVIDIA's, in the same bounds. May hang with its driver.
std::vector<NvidiaFile> survey_nvidia_files(const std::string& root = "");

}  // namespace muster::agent::gpus
