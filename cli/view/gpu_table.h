// How `muster hosts` shows GPUs. Pure; text of hosts is made printable; what drivers do not tell is "-".
#pragma once

#include <string>
#include <vector>

#include "proto/muster/v1/launcher.pb.h"

namespace muster::cli::inline view {

// A line of `muster hosts`: "4 x NVIDIA H100 of 79 GiB; 300 MiB used, 1 process"; empty: the drivers tell nothing.
std::string gpu_summary(const v1::LauncherHost& host);

// `muster hosts --gpus`: a line each GPU and each part of one (MIG) under a heading. Empty for none.
std::string format_gpus(const std::vector<v1::LauncherHost>& hosts);

}  // namespace muster::cli::view
