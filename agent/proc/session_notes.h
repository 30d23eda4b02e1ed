// Reads what a session directory says about its job after agent and warden are gone: its ranks, its cgroup and its
// MPI worlds.
//
// Plain values. It reads small files and blocks for as long as the file system does.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "agent/proc/proc_table.h"

namespace muster::agent::inline proc {

struct KnownRank {
  pid_t pid = 0;
  std::uint64_t not_before = 0;  // the rank started at this time or shortly after; in ticks since boot
};

std::vector<KnownRank> known_ranks(const std::string& session_path);
// Reads any note that has a pid and a start time on each line.
std::vector<KnownRank> known_processes(const std::string& session_path, const std::string& note);

// Returns only cgroups that are named after the session. So a process that can write the note cannot make Muster
// empty another cgroup.
std::vector<std::string> known_cgroups(const std::string& session_path);

// PMI's names of the worlds of the job's ranks: the name in Launch.world, one for each start.
inline constexpr const char* kWorldNote = "mpi-world";
std::vector<std::string> known_worlds(const std::string& session_path);

// Returns the processes of `table` that are left of the session (setsid) of a rank. Pure.
// A session keeps its number while it has members. After that the number may be reused by a session whose leader
// started much later than the rank. Then nothing is returned.
std::vector<ProcessInfo> members_of_session(const std::vector<ProcessInfo>& table, const KnownRank& rank);

}  // namespace muster::agent::proc
