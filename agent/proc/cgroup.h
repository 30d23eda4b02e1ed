// A cgroup v2 of our own, below the one that we are in: found by mountinfo and /proc/self/cgroup, also on hybrid
// machines where it has no controllers. Its name holds job and agent. Owner: the warden, or a clean-up after it;
// single-threaded. Not removed by destruction.
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
  // mkdir below our own cgroup. The error says why a cgroup cannot be used here.
  static base::Result<Cgroup> create(const std::string& name);
  static base::Result<Cgroup> open(const std::string& path);

  const std::string& path() const { return path_; }
  int directory_fd() const { return directory_.get(); }
  int procs_fd() const { return procs_.get(); }  // for writing; a process moves itself by "0"

  bool is_populated() const;
  std::vector<pid_t> pids() const;                 // of all groups below it too, in our PID namespace
  bool kill() const;                               // cgroup.kill; false: this kernel has none (before 5.14)
  bool freeze(bool on) const;                      // false: not possible
  std::optional<std::uint64_t> oom_kills() const;  // nullopt: no memory controller here
  base::Status remove() const;                     // with the groups below it; all must be empty
  // remove() until it succeeds, for a second at most: the last members leave some microseconds after they were reaped.
  void remove_blocking() const;

 private:
  Cgroup(std::string path, base::UniqueFd directory, base::UniqueFd procs)
      : path_(std::move(path)), directory_(std::move(directory)), procs_(std::move(procs)) {}

  std::string path_;
  base::UniqueFd directory_;
  base::UniqueFd procs_;
};

// The number after `key ` in a file that has one key a line, such as memory.events and /proc/vmstat.
std::optional<std::uint64_t> keyed_value(const std::string& path, std::string_view key);

// The file in which the kernel counts oom_kill for the cgroup that limits this process's memory: memory.oom_control of
// cgroup v1, memory.events of v2. Empty when there is none. From the contents of the same two files. Pure.
std::string find_memory_events(const std::string& mountinfo, const std::string& self_cgroup);

// The directory of our own cgroup v2, from the contents of /proc/self/mountinfo and /proc/self/cgroup. Pure.
base::Result<std::string> find_own_cgroup(const std::string& mountinfo, const std::string& self_cgroup);

}  // namespace muster::agent::proc
