// What the launcher finds around its own process: directory, umask, its agent, its limits. Call from the main thread,
// before others start.
#pragma once

#include <string>
#include <vector>

#include "base/env.h"
#include "base/status.h"

namespace muster::cli::inline hosts {

// $PWD if it is this directory (so that a path through a link stays one), else the kernel's answer.
std::string logical_working_directory(const base::Environment& environment);

// `path` from `directory`; an empty path stays empty.
std::string absolute_path(const std::string& path, const std::string& directory);

unsigned current_umask();

// Of this program's file.
base::Result<std::string> program_directory();

// What ranks that run Python get on their PYTHONPATH: <prefix>/python, which holds the package muster, and in it the
// folder of its `horovod`. Empty where this program was installed without them.
std::vector<std::string> python_folders();

// The agent lies beside the program that runs, wherever that was installed; MUSTER_AGENT_PATH names another.
base::Result<std::string> find_agent(const base::Environment& environment);

// Neither a core file nor another process of this user may read this one's memory: it holds keys and environments.
void hide_memory();

}  // namespace muster::cli::hosts
