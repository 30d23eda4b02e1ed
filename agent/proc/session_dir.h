// The job's directory on a host: <root>/muster-<uid>/<job>-<agent>/, 0700. If another user has taken the name
// muster-<uid>, muster-<uid>-<8 hexadecimal digits> stands in for it. In the job's directory lies `alive`: locked by
// agent and warden for as long as either lives (one open file, shared by fork), holding the lease. Owner: Warden (agent
// side) and the warden process; single-threaded but for write_lease. Not removed by destruction: remove() is called by
// whoever is last.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace muster::agent::inline proc {

class SessionDir {
 public:
  // `root` empty: ${MUSTER_TMPDIR:-/tmp}. ALREADY_EXISTS: another agent with this id lives.
  static base::Result<SessionDir> create(const std::string& root, const std::string& job_id,
                                         const std::string& agent_id);

  // One that another process of ours has made; `alive` shares the lock that it took.
  static SessionDir adopt(std::string path, base::UniqueFd alive) { return {std::move(path), std::move(alive)}; }

  const std::string& path() const { return path_; }
  int lock_fd() const { return alive_.get(); }
  void close_lock() { alive_.reset(); }
  base::UniqueFd release_lock() { return std::move(alive_); }

  // nullopt: no lease is in force.
  void write_lease(std::optional<base::MonotonicTime> until) const;

  // The directory, all in it, and the muster-<uid> above it when that is empty then.
  base::Status remove() const;

 private:
  SessionDir(std::string path, base::UniqueFd alive) : path_(std::move(path)), alive_(std::move(alive)) {}
  std::string path_;
  base::UniqueFd alive_;
};

// What a sweep finds. The lock is held by the returned value when nobody else held it.
struct FoundSession {
  std::string path;
  bool is_alive = false;         // agent or warden lives
  base::UniqueFd lock;           // ours now, when it is not alive and has its file
  bool lease_has_passed = true;  // also when none is written
  std::chrono::milliseconds lease_left{0};
};

std::string session_root(const std::string& root);  // <root>/muster-<uid>
// The folders that may hold sessions of this user: session_root(), unless another user has made it, and the folders
// that were made instead of it.
std::vector<std::string> session_roots(const std::string& root);
bool is_session_root(std::string_view path);  // by its name
// PERMISSION_DENIED: another user has made session_root().
base::Status check_session_root(const std::string& root);
// No link, ours, and closed to others.
bool is_private_directory(const std::string& path);
// Without a root there are none; any other error leaves open what is there.
base::Result<std::vector<std::string>> list_sessions(const std::string& root, const std::string& job_id);
base::Result<std::vector<std::string>> list_all_sessions(const std::string& root);

// The job that a session directory is named after, by the last part of `path`; empty: that is no such name.
std::string job_of_session(const std::string& path);
// Never through a link at `path` or the directory above it, which must be ours and 0700.
// NOT_FOUND: there is none. FAILED_PRECONDITION: it is no session directory of ours. Any other error leaves open
// whether agent or warden lives.
base::Result<FoundSession> look_at_session(const std::string& path);
// By what a look has told: nothing says that agent and warden are gone.
bool may_be_alive(const base::Result<FoundSession>& look);
// The same of the session that a process of `job_id` names; false for a path that no session of the job has.
bool may_be_living_session(const std::string& path, const std::string& job_id);
// With what the job's ranks share in memory (shared_memory_dir, mpich_memory.h), and the muster-<uid> above it when
// that is empty then.
base::Status remove_session(const std::string& path);
// Where a session's ranks may keep files that they share in memory; made by who needs it.
std::string shared_memory_dir(const std::string& session_path);
// The directory and all in it, never following a link. Ok: there is none.
base::Status remove_tree(const std::string& path);

// Small notes for a sweep: the job's cgroup, and one line for each rank. For appending.
base::Result<base::UniqueFd> open_note(const std::string& session_path, const std::string& name);
base::Status write_note(const std::string& session_path, const std::string& name, const std::string& line);

}  // namespace muster::agent::proc
