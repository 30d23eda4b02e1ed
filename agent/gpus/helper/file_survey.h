// Reads from the kernel's files which processes use AMD's and Intel's GPUs of this host, and how busy the GPUs are.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "agent/gpus/report.h"

namespace muster::agent::inline gpus {

// Returns AMD's GPUs, then Intel's, by index, within the bounds of decode_report(). For processes of other users than
// `uid`, it returns only what the kernel shows to everybody. `uid` 0 sees all users. May hang in a driver.
std::vector<FileGpu> survey_files(uid_t uid, const std::string& root = "");

// Returns NVIDIA's GPUs, within the same bounds. May hang with its driver.
std::vector<NvidiaFile> survey_nvidia_files(const std::string& root = "");

}  // namespace muster::agent::gpus
