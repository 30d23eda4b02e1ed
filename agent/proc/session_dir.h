// The job's directory on a host: <root>/muster-<uid>/<job>-<agent>/, with mode 0700. If another user has taken the
// name muster-<uid>, muster-<uid>-<8 hexadecimal digits> is used instead.
//
// The directory contains the file `alive`, which holds the lease. It is locked as long as agent or warden lives; both
// share one open file after the fork.
//
// Owner: Warden (on the agent's side) and the warden process.
// Thread: single-threaded, except for write_lease().
// The destructor does not remove the directory. Agent or warden, whichever is the last, calls remove().
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
  // An empty `root` means ${MUSTER_TMPDIR:-/tmp}. ALREADY_EXISTS: another agent with this id lives.
  static base::Result<SessionDir> create(const std::string& root, const std::string& job_id,
                                         const std::string& agent_id);

  // Takes over a directory that another process of ours has made. `alive` shares the lock of that process.
  static SessionDir adopt(std::string path, base::UniqueFd alive) { return {std::move(path), std::move(alive)}; }

  const std::string& path() const { return path_; }
  int lock_fd() const { return alive_.get(); }
  void close_lock() { alive_.reset(); }
  base::UniqueFd release_lock() { return std::move(alive_); }

  // nullopt means that no lease is in force.
  void write_lease(std::optional<base::MonotonicTime> until) const;

  // Removes the directory with its content, and muster-<uid> above it if that is then empty.
  base::Status remove() const;

 private:
  SessionDir(std::string path, base::UniqueFd alive) : path_(std::move(path)), alive_(std::move(alive)) {}
  std::string path_;
  base::UniqueFd alive_;
};

// The result of inspect_session().
struct FoundSession {
  std::string path;
  bool is_alive = false;         // agent or warden lives
  base::UniqueFd lock;           // ours now, if it is not alive and has its file
  bool lease_has_passed = true;  // true also if no lease is written
  std::chrono::milliseconds lease_left{0};
};

std::string session_root(const std::string& root);  // <root>/muster-<uid>
// Returns the folders that may hold sessions of this user: session_root() and the folders that were made instead of it.
// session_root() is left out if another user has made it.
std::vector<std::string> session_roots(const std::string& root);
bool is_session_root(std::string_view path);  // judged by its name
// PERMISSION_DENIED: another user has made session_root().
base::Status check_session_root(const std::string& root);
// True if the path is a directory of ours, not a link, and closed to other users.
bool is_private_directory(const std::string& path);
// Empty if `root` does not exist. After an error the existing sessions are unknown.
base::Result<std::vector<std::string>> list_sessions(const std::string& root, const std::string& job_id);
base::Result<std::vector<std::string>> list_all_sessions(const std::string& root);

// Returns the job after which a session directory is named, from the last part of `path`. Empty if it is not such a
// name.
std::string job_of_session(const std::string& path);
// Reads a session and tries to lock it. Never follows a link at `path` or at the directory above it, which must be
// ours and 0700.
// NOT_FOUND: there is none. FAILED_PRECONDITION: it is not a session directory of ours. After any other error it is
// unknown whether agent or warden lives.
base::Result<FoundSession> inspect_session(const std::string& path);
// True unless the result of inspect_session() shows that agent and warden are gone.
bool may_be_alive(const base::Result<FoundSession>& session);
// Does the same as may_be_alive() for a path from the environment of a process of `job_id`. False if no session of
// that job can have this path.
bool may_be_living_session(const std::string& path, const std::string& job_id);
// Removes the directory and the shared memory of the job's ranks (shared_memory_dir, mpich_memory.h). Removes
// muster-<uid> above the directory if that is then empty.
base::Status remove_session(const std::string& path);
// Returns the folder for files that a session's ranks share in memory. A program that needs it makes it.
std::string shared_memory_dir(const std::string& session_path);
// Removes the directory with its content, never following a link. Ok also if there is none.
base::Status remove_tree(const std::string& path);

// Opens a small note for a sweep, for appending. Notes hold, for example, the job's cgroup, and one line for each
// rank.
base::Result<base::UniqueFd> open_note(const std::string& session_path, const std::string& name);
base::Status write_note(const std::string& session_path, const std::string& name, const std::string& line);

}  // namespace muster::agent::proc
