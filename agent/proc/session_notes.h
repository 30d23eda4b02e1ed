// What a session directory tells of its job once agent and warden are gone: its ranks and its cgroup. Plain values;
// reads small files, blocks for as long as the file system does.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "agent/proc/proc_table.h"

namespace muster::agent::inline proc {

struct KnownRank {
  pid_t pid = 0;
  std::uint64_t not_before = 0;  // its start time, in ticks since boot, is this or shortly after
};

std::vector<KnownRank> known_ranks(const std::string& session_path);
// The same of any note with a pid and a start time in each line.
std::vector<KnownRank> known_processes(const std::string& session_path, const std::string& note);

// Only those that are named after the session: whoever can write the note has no other cgroup emptied.
std::vector<std::string> known_cgroups(const std::string& session_path);

// What PMI calls the worlds of the job's ranks: Launch.world's name, one for each start.
inline constexpr const char* kWorldNote = "mpi-world";
std::vector<std::string> known_worlds(const std::string& session_path);

// The processes of `table` that are left of the session (setsid) of a rank. A session keeps its number for as long as
// it has members, so these are the rank's, unless the number was given away again after the last of them: then its
// leader is there and started much later. Pure.
std::vector<ProcessInfo> members_of_session(const std::vector<ProcessInfo>& table, const KnownRank& rank);

}  // namespace muster::agent::proc
