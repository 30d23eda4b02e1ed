// Where a launcherd keeps its state: a directory of the user's that nobody else may enter, on a disk of this host, used
// by one launcherd at a time. Blocks for as long as the file system does.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/env.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace muster::launcherd::inline store {

// ${XDG_STATE_HOME:-~/.local/state}/muster/<host_name>. FAILED_PRECONDITION: neither variable names an absolute path;
// INVALID_ARGUMENT: the name cannot name a directory.
base::Result<std::string> default_state_directory(const base::Environment& environment, std::string_view host_name);

// The name of a file system (statfs's f_type) that several hosts can share: locks and shared memory of one host mean
// nothing on another. nullopt: a local one, or one that is not known to be shared.
std::optional<std::string_view> shared_file_system(long type);

class StateDirectory {
 public:
  // Makes `path` with its missing parents (0700) and takes its lock until destruction. PERMISSION_DENIED: it is not
  // ours alone; FAILED_PRECONDITION: it lies on a shared file system; ALREADY_EXISTS: another launcherd uses it.
  static base::Result<StateDirectory> open(const std::string& path);

  const std::string& path() const { return path_; }
  std::string database() const { return path_ + "/jobs.sqlite"; }

 private:
  StateDirectory(std::string path, base::UniqueFd lock) : path_(std::move(path)), lock_(std::move(lock)) {}

  std::string path_;
  base::UniqueFd lock_;  // its file is never removed: who waits for the name would lock another one
};

}  // namespace muster::launcherd::store
