// A cgroup v2 of our own, below the cgroup in which this process is. Its name contains job and agent.
// find_own_cgroup() finds the parent by mountinfo and /proc/self/cgroup. This works on hybrid machines, too, where
// cgroup v2 has no controllers.
//
// Owner: the warden, or a clean-up after it.
// Thread: single-threaded.
// The destructor does not remove the cgroup.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"

namespace muster::agent::inline proc {

class Cgroup {
 public:
  // Makes a directory below our own cgroup. The error says why a cgroup cannot be used here.
  static base::Result<Cgroup> create(const std::string& name);
  static base::Result<Cgroup> open(const std::string& path);

  const std::string& path() const { return path_; }
  int directory_fd() const { return directory_.get(); }
  int procs_fd() const { return procs_.get(); }  // open for writing; a process that writes "0" to it moves itself

  bool is_populated() const;
  std::vector<pid_t> pids() const;                 // includes all groups below; numbered by our PID namespace
  bool kill() const;                               // writes cgroup.kill; false if this kernel has none (before 5.14)
  bool freeze(bool on) const;                      // false if it is not possible
  std::optional<std::uint64_t> oom_kills() const;  // nullopt if there is no memory controller here
  base::Status remove() const;                     // also removes the groups below; all must be empty
  // Repeats remove() until it succeeds, for at most a second. The last members leave the cgroup some microseconds
  // after they were reaped.
  void remove_blocking() const;

 private:
  Cgroup(std::string path, base::UniqueFd directory, base::UniqueFd procs)
      : path_(std::move(path)), directory_(std::move(directory)), procs_(std::move(procs)) {}

  std::string path_;
  base::UniqueFd directory_;
  base::UniqueFd procs_;
};

// Returns the number after `key ` in a file that has one key on each line, such as memory.events and /proc/vmstat.
// nullopt if there is none.
std::optional<std::uint64_t> keyed_value(const std::string& path, std::string_view key);

// Returns the file in which the kernel counts oom_kill for the cgroup that limits this process's memory. The file is
// memory.oom_control of cgroup v1, or memory.events of v2. Empty if there is none.
// The arguments are the contents of /proc/self/mountinfo and /proc/self/cgroup. Pure.
std::string find_memory_events(const std::string& mountinfo, const std::string& self_cgroup);

// Returns the directory of our own cgroup v2, from the contents of /proc/self/mountinfo and /proc/self/cgroup. Pure.
base::Result<std::string> find_own_cgroup(const std::string& mountinfo, const std::string& self_cgroup);

}  // namespace muster::agent::proc
