// The folder that `muster ensemble` makes for its launcherd. It holds launcherd's state and socket, on a disk of this
// host.
#pragma once

#include <memory>
#include <string>

#include "base/env.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace muster::cli::inline ensemble {

// Makes ${MUSTER_TMPDIR:-/tmp}/muster-<uid>/ensemble-XXXXXX, and removes it with its contents on destruction. make()
// also removes the folders of ensembles that were killed. Blocks.
class EnsembleFolder {
 public:
  static base::Result<std::unique_ptr<EnsembleFolder>> make(const base::Environment& environment);
  ~EnsembleFolder();
  EnsembleFolder(const EnsembleFolder&) = delete;
  EnsembleFolder& operator=(const EnsembleFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  EnsembleFolder(std::string path, base::UniqueFd lock) : path_(std::move(path)), lock_(std::move(lock)) {}

  const std::string path_;
  const base::UniqueFd lock_;  // a lock on the folder; its ensemble runs while the lock is held
};

}  // namespace muster::cli::ensemble
