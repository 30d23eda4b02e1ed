#include "cli/ensemble/ensemble_folder.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "base/file.h"
#include "base/print.h"

namespace muster::cli::inline ensemble {
namespace {

namespace fs = std::filesystem;

base::UniqueFd lock_folder(const std::string& path) {
  base::UniqueFd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (folder.valid() && ::flock(folder.get(), LOCK_EX | LOCK_NB) != 0) folder.reset();
  return folder;
}

void remove_folder(const std::string& path) {
  std::error_code failed;
  fs::remove_all(path, failed);
  if (failed) base::print_remark("muster ensemble: {} could not be removed: {}\n", path, failed.message());
}

// Keep empty folders: another ensemble may have made one and not locked it yet.
void remove_dead_folders(const std::string& parent) {
  std::error_code failed;
  for (const fs::directory_entry& entry : fs::directory_iterator(parent, failed)) {
    const std::string path = entry.path().string();
    if (!entry.path().filename().string().starts_with("ensemble-")) continue;
    const base::UniqueFd lock = lock_folder(path);
    if (lock.valid() && !fs::is_empty(entry.path(), failed)) remove_folder(path);
  }
}

}  // namespace

base::Result<std::unique_ptr<EnsembleFolder>> EnsembleFolder::make(const base::Environment& environment) {
  const auto root = environment.get("MUSTER_TMPDIR");
  const std::string parent =
      fmt::format("{}/muster-{}", root && !root->empty() ? *root : std::string_view("/tmp"), ::geteuid());
  MUSTER_RETURN_IF_ERROR(base::make_private_directory(parent));
  remove_dead_folders(parent);
  std::string path = parent + "/ensemble-XXXXXX";
  if (::mkdtemp(path.data()) == nullptr) return base::errno_error(errno, "make the folder " + path);
  base::UniqueFd lock = lock_folder(path);
  if (!lock.valid()) return base::errno_error(errno, "lock " + path);
  return std::unique_ptr<EnsembleFolder>(new EnsembleFolder(std::move(path), std::move(lock)));
}

EnsembleFolder::~EnsembleFolder() {
  remove_folder(path_);
  // Ignore failure: the parent stays if another ensemble or an agent's session uses it.
  ::rmdir(fs::path(path_).parent_path().c_str());
}

}  // namespace muster::cli::ensemble
