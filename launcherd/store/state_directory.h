// StateDirectory is where launcherd keeps its state. It is a directory that only the user may enter, on a disk of this
// host. One launcherd uses it at a time. Calls block as long as the file system does.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/env.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace muster::launcherd::inline store {

// Returns ${XDG_STATE_HOME:-~/.local/state}/muster/<host_name>. FAILED_PRECONDITION if neither variable names an
// absolute path. INVALID_ARGUMENT if the host name cannot be a directory name.
base::Result<std::string> default_state_directory(const base::Environment& environment, std::string_view host_name);

// Returns the name of a file system type (statfs's f_type) that several hosts can share. On such a file system, locks
// and shared memory of one host have no effect on another. nullopt if the type is local, or not known to be shared.
std::optional<std::string_view> shared_file_system(long type);

enum class StateUse {
  kMissing,  // the directory does not exist
  kFree,
  kInUse,  // by a launcherd that runs
};

class StateDirectory {
 public:
  // Looks at `path` as open() would, but makes and changes nothing. A launcherd that runs is no error.
  static base::Result<StateUse> look(const std::string& path);

  // Creates `path` with its missing parents (0700). Holds its lock until destruction.
  // PERMISSION_DENIED: other users have access. FAILED_PRECONDITION: it lies on a shared file system. ALREADY_EXISTS:
  // another launcherd uses it.
  static base::Result<StateDirectory> open(const std::string& path);

  const std::string& path() const { return path_; }
  std::string database() const { return path_ + "/jobs.sqlite"; }

 private:
  StateDirectory(std::string path, base::UniqueFd lock) : path_(std::move(path)), lock_(std::move(lock)) {}

  std::string path_;
  // The lock file is never removed, because a process that waits for it would then lock another file.
  base::UniqueFd lock_;
};

}  // namespace muster::launcherd::store
