// What dead jobs leave on a host beside processes and session directories: the sockets of killed launchers, empty
// cgroups, and files in /dev/shm that are named after a job. Segments of System V and files with other names cannot be
// attributed with certainty, so they are not looked for. Blocks for as long as the file systems do.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/status.h"

namespace muster::agent::inline strays {

enum class TraceKind { kSocket, kCgroup, kSharedMemory };

struct Trace {
  TraceKind kind{};
  std::string job_id;
  std::string path;
  std::chrono::seconds age{0};
};

// job-<id>.sock, of our uid, in these directories, at which nobody listens.
std::vector<Trace> find_abandoned_sockets(const std::vector<std::string>& directories);

// muster-<job>-<agent>, of our uid and without a process, anywhere below `root`; at most some 10,000 groups are looked
// at.
std::vector<Trace> find_empty_cgroups(const std::string& root);

// Files of our uid in `directory` named muster-<job>, or muster-<job>-… .
std::vector<Trace> find_shared_memory(const std::string& directory);

// Where cgroup version 2 is mounted; empty: nowhere.
std::string cgroup_root(const std::string& mountinfo);

// For one that was judged to be left over. A socket at which somebody listens by now, and a cgroup that has a process,
// stay: FAILED_PRECONDITION.
base::Status remove_trace(const Trace& trace);

}  // namespace muster::agent::strays
