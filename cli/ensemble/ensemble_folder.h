// Where the launcherd of a `muster ensemble` keeps its state and its socket: on a disk of this host.
#pragma once

#include <memory>
#include <string>

#include "base/env.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace muster::cli::inline ensemble {

// ${MUSTER_TMPDIR:-/tmp}/muster-<uid>/ensemble-XXXXXX, with all that is in it gone at the end. Those that killed
// ensembles have left are removed when another one is made. Blocks.
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
  const base::UniqueFd lock_;  // on the folder itself: who holds it lives
};

}  // namespace muster::cli::ensemble
