// Finds and removes what dead jobs leave on a host besides processes and session directories. These are sockets of
// killed launchers, empty cgroups, and files in /dev/shm that are named after a job.
// It does not search segments of System V and files with other names, because their job is never certain.
//
// Calls block for as long as the file systems do.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/status.h"

namespace muster::agent::inline strays {

enum class StrayFileKind { kSocket, kCgroup, kSharedMemory };

struct StrayFile {
  StrayFileKind kind{};
  std::string job_id;
  std::string path;
  std::chrono::seconds age{0};
};

// Sockets job-<id>.sock of our uid in these directories, at which no process listens.
std::vector<StrayFile> find_abandoned_sockets(const std::vector<std::string>& directories);

// Cgroups muster-<job>-<agent> of our uid without a process, anywhere below `root`. Reads at most 10,000 groups.
std::vector<StrayFile> find_empty_cgroups(const std::string& root);

// Files of our uid in `directory` that are named muster-<job> or muster-<job>-… .
std::vector<StrayFile> find_shared_memory(const std::string& directory);

// Returns the directory on which cgroup v2 is mounted. Empty if it is not mounted.
std::string cgroup_root(const std::string& mountinfo);

// Removes a file that was judged to be a stray. FAILED_PRECONDITION: a process now listens at the socket, or the cgroup
// now has a process. Then the file stays.
base::Status remove_stray_file(const StrayFile& file);

}  // namespace muster::agent::strays
