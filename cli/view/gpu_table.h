// Formats the GPUs of `muster hosts`. "-" stands for what drivers do not report. Text of hosts is made printable.
// Thread: any; pure.
#pragma once

#include <string>
#include <vector>

#include "proto/muster/v1/launcher.pb.h"

namespace muster::cli::inline view {

// Returns text for a line of `muster hosts`: "4 x NVIDIA H100 of 79 GiB; 300 MiB used, 1 process". Empty if the drivers
// report nothing.
std::string gpu_summary(const v1::LauncherHost& host);

// Formats `muster hosts --gpus`: a heading, and a line for each GPU and each part of one (MIG). Empty if no host has a
// GPU.
std::string format_gpus(const std::vector<v1::LauncherHost>& hosts);

}  // namespace muster::cli::view
