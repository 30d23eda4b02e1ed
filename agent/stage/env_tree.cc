// The whole of EnvTree. Read begin(), content() and end() first, which choose by the kind of an entry. Then read
// open_parent(), which keeps paths inside of the folder.
#include "agent/stage/env_tree.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "agent/stage/env_prefix.h"
#include "agent/stage/stage_folder.h"
#include "base/strings.h"

namespace muster::agent::inline stage {
namespace {

using base::Status;
using proto::EnvEntry;
using Kind = EnvEntry::Kind;

constexpr unsigned kKeptBits = 0755;  // only the owner may write

Status cannot(int problem, std::string_view what, const std::string& path) {
  return base::errno_error(problem, fmt::format("{} {}", what, base::printable(path)));
}

std::string last_name(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

}  // namespace

EnvTree::EnvTree(base::UniqueFd folder, std::string home) : folder_(std::move(folder)), home_(std::move(home)) {}

Status EnvTree::begin(const EnvEntry& entry) {
  text_.clear();
  is_held_ = true;
  if (entry.kind == Kind::kPrefix) return base::ok_status();
  if (!is_inner_path(entry.path)) {
    return base::data_loss("the packed environment is damaged: '{}' is not a path within a folder",
                           base::printable(entry.path));
  }
  MUSTER_RETURN_IF_ERROR(open_parent(entry.path));
  if (entry.kind == Kind::kFolder) return make_folder(entry);
  if (entry.kind == Kind::kLink) return base::ok_status();
  is_held_ = may_name_prefix(entry.path) && entry.size <= kMostRewritten;
  return make_file(entry);
}

Status EnvTree::content(std::string_view bytes) {
  if (!is_held_) return write(bytes);
  text_ += bytes;
  return base::ok_status();
}

Status EnvTree::end(const EnvEntry& entry) {
  switch (entry.kind) {
    case Kind::kPrefix:
      prefixes_.push_back(text_);
      return base::ok_status();
    case Kind::kLink:
      return make_link(entry);
    case Kind::kFile:
      return complete_file(entry);
    default:
      return base::ok_status();
  }
}

// Entries of one folder follow each other, so the last folder stays open.
Status EnvTree::open_parent(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string parent = slash == std::string::npos ? "" : path.substr(0, slash);
  if (parent_.valid() && parent == parent_path_) return base::ok_status();
  base::UniqueFd at(::openat(folder_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!at.valid()) return cannot(errno, "open the folder of", path);
  for (const std::string_view name : base::split(parent, '/')) {
    if (name.empty()) continue;
    base::UniqueFd next(::openat(at.get(), std::string(name).c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!next.valid()) return cannot(errno, "open the folder of", path);
    at = std::move(next);
  }
  parent_ = std::move(at);
  parent_path_ = parent;
  return base::ok_status();
}

Status EnvTree::make_folder(const EnvEntry& entry) const {
  const std::string name = last_name(entry.path);
  // The owner must be able to fill and to remove the folder, and no other user may.
  const unsigned mode = (entry.mode & kKeptBits) | 0700;
  if (::mkdirat(parent_.get(), name.c_str(), mode) != 0) return cannot(errno, "make the folder", entry.path);
  return ::fchmodat(parent_.get(), name.c_str(), mode, 0) == 0
             ? base::ok_status()
             : cannot(errno, "set the permissions of", entry.path);  // the umask does not count
}

Status EnvTree::make_link(const EnvEntry& entry) {
  if (text_.find('\0') != std::string::npos) {
    return base::data_loss("the packed environment is damaged: the link {} has no target", base::printable(entry.path));
  }
  const std::string target = moved_target(text_, prefixes_, home_);
  if (::symlinkat(target.c_str(), parent_.get(), last_name(entry.path).c_str()) == 0) return base::ok_status();
  return cannot(errno, "make the link", entry.path);
}

Status EnvTree::make_file(const EnvEntry& entry) {
  file_path_ = entry.path;
  file_.reset(::openat(parent_.get(), last_name(entry.path).c_str(),
                       O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  return file_.valid() ? base::ok_status() : cannot(errno, "make the file", entry.path);
}

Status EnvTree::complete_file(const EnvEntry& entry) {
  if (is_held_) MUSTER_RETURN_IF_ERROR(write(with_prefix(std::move(text_), prefixes_, home_)));
  if (::fchmod(file_.get(), entry.mode & kKeptBits) != 0) {
    return cannot(errno, "set the permissions of", entry.path);
  }
  MUSTER_RETURN_IF_ERROR(set_time(file_.get(), entry.mtime_ns).with_context(base::printable(entry.path)));
  // A file system on another machine may report a full disk only now.
  if (::close(file_.release()) != 0) return cannot(errno, "write", entry.path);
  return base::ok_status();
}

Status EnvTree::write(std::string_view bytes) {
  bytes_ += bytes.size();
  const Status written = base::write_all_blocking(file_.get(), bytes.data(), bytes.size());
  return written.ok() ? written : written.with_context(base::printable(file_path_));
}

}  // namespace muster::agent::stage
