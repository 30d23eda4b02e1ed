// Finds what surrounds the launcher's process: directory, umask, its agent, its limits.
// Thread: main thread, before others start.
#pragma once

#include <string>
#include <vector>

#include "base/env.h"
#include "base/status.h"

namespace muster::cli::inline hosts {

// Returns $PWD if it is this directory, so that a path through a link stays as it is. Otherwise returns the kernel's
// path.
std::string logical_working_directory(const base::Environment& environment);

// Makes `path` absolute; it is relative to `directory`. An empty path stays empty.
std::string absolute_path(const std::string& path, const std::string& directory);

unsigned current_umask();

// Returns the directory of this program's file.
base::Result<std::string> program_directory();

// Returns the folders that ranks with Python get on their PYTHONPATH: the one that holds the package muster
// (<prefix>/python of a build tree, <prefix>/share/muster/python of an installation), and the folder of Muster's
// `horovod` in that package. Empty if this program was installed without them.
std::vector<std::string> python_folders();

// Finds the agent: at MUSTER_AGENT_PATH, beside the running program, or in <prefix>/libexec/muster.
base::Result<std::string> find_agent(const base::Environment& environment);

// Keeps this process's memory out of core files and from other processes of this user, because it
// holds keys and environments.
void hide_memory();

}  // namespace muster::cli::hosts
