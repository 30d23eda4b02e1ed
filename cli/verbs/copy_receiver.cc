#include "cli/verbs/copy_receiver.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "base/strings.h"

namespace muster::cli::inline verbs {
namespace {

namespace fs = std::filesystem;

bool is_folder(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

}  // namespace

CopyReceiver::CopyReceiver(const std::string& target, const std::string& name, bool takes_folders)
    : path_(target), takes_folders_(takes_folders) {
  if (!is_folder(path_) || name.empty()) return;
  if (!path_.ends_with('/')) path_ += '/';
  path_ += name;
}

CopyReceiver::~CopyReceiver() {
  remove();
}

void CopyReceiver::remove() {
  archive_.reset();
  file_.reset();
  if (temporary_.empty()) return;
  std::error_code ignored;  // what cannot be removed stays, under its temporary name
  fs::remove_all(std::exchange(temporary_, {}), ignored);
}

std::uint64_t CopyReceiver::size() const {
  return header_ ? static_cast<std::uint64_t>(header_->size) : 0;
}

base::Status CopyReceiver::take(std::string_view bytes) {
  if (header_) return write(bytes);
  start_ += bytes;
  MUSTER_ASSIGN_OR_RETURN(header_, take_copy_header(start_));
  if (!header_) return base::ok_status();
  MUSTER_RETURN_IF_ERROR(begin());
  return write(std::exchange(start_, {}));
}

base::Status CopyReceiver::begin() {
  const fs::path place(path_);
  std::string pattern =
      ((place.has_parent_path() ? place.parent_path() : fs::path(".")) / ".muster-cp.XXXXXX").string();
  if (!header_->is_tree) {
    if (is_folder(path_)) return base::already_exists("{} is a folder", base::printable(path_));
    file_.reset(::mkostemp(pattern.data(), O_CLOEXEC));
    if (!file_.valid()) return base::errno_error(errno, fmt::format("make a file beside {}", base::printable(path_)));
    temporary_ = pattern;
    return base::ok_status();
  }
  if (!takes_folders_) return base::invalid_argument("the host sent a folder in place of a file: add -r");
  if (::access(path_.c_str(), F_OK) == 0) {
    return base::already_exists("{} exists already, and a folder is not merged into another one",
                                base::printable(path_));
  }
  if (::mkdtemp(pattern.data()) == nullptr) {
    return base::errno_error(errno, fmt::format("make a folder beside {}", base::printable(path_)));
  }
  temporary_ = pattern;
  MUSTER_ASSIGN_OR_RETURN(CopyArchive archive, CopyArchive::unpack(temporary_));
  archive_.emplace(std::move(archive));
  return base::ok_status();
}

base::Status CopyReceiver::write(std::string_view bytes) {
  if (bytes.empty()) return base::ok_status();
  bytes_ += bytes.size();
  if (header_->has_size && bytes_ > size()) {
    return base::data_loss("the host sent more than the {} bytes of the file", size());
  }
  const int to = header_->is_tree ? archive_->fd() : file_.get();
  return base::write_all_blocking(to, bytes.data(), bytes.size())
      .with_context(fmt::format("cannot write {}", base::printable(path_)));
}

base::Status CopyReceiver::commit() {
  if (!header_) return base::data_loss("the host sent nothing");
  if (header_->is_tree) {
    MUSTER_RETURN_IF_ERROR(archive_->wait_blocking());
  } else {
    if (header_->has_size && bytes_ != size()) return base::data_loss("{} of {} bytes arrived", bytes_, size());
    if (::fchmod(file_.get(), header_->mode & 0777) != 0 || ::close(file_.release()) != 0) {
      return base::errno_error(errno, fmt::format("cannot write {}", base::printable(path_)));
    }
  }
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
    return base::errno_error(errno, fmt::format("cannot give {} its name", base::printable(path_)));
  }
  temporary_.clear();
  return base::ok_status();
}

}  // namespace muster::cli::verbs
