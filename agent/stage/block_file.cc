// The whole of BlockFile.
// Read it in this order: open, resume_part, check, make_part, put, finish.
#include "agent/stage/block_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/ids.h"
#include "base/sha256.h"
#include "base/strings.h"
#include "base/trusted_folder.h"

namespace muster::agent::inline stage {
namespace {

using base::Result;
using base::Status;

constexpr std::size_t kNameHashDigits = 24;  // enough that names of one folder differ

// Reads up to `size` bytes. Fewer come at the end of the file.
Result<std::string> read_at(int file, std::uint64_t offset, std::size_t size) {
  std::string bytes(size, '\0');
  std::size_t done = 0;
  while (done < size) {
    const ssize_t count = ::pread(file, bytes.data() + done, size - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return base::errno_error(errno, "read");
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  bytes.resize(done);
  return bytes;
}

// The folder may be on a file system without locks. Then no part of an earlier staging is used.
bool try_lock(int file) {
  return ::flock(file, LOCK_EX | LOCK_NB) == 0;
}

bool has_hash(std::string_view bytes, const std::string& hash) {
  const auto digest = base::sha256_of(bytes);
  return digest.ok() && *digest == hash;
}

// True if the name still leads to the open file. Another staging may have given it its final name meanwhile.
bool is_same_file(int parent, const std::string& name, const struct stat& open) {
  struct stat named {};
  return ::fstatat(parent, name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 && named.st_dev == open.st_dev &&
         named.st_ino == open.st_ino;
}

}  // namespace

std::uint32_t count_of_blocks(std::uint64_t file_bytes, std::size_t block_bytes) {
  return static_cast<std::uint32_t>((file_bytes + block_bytes - 1) / block_bytes);
}

std::size_t size_of_block(std::uint64_t file_bytes, std::size_t block_bytes, std::uint32_t block) {
  const std::uint64_t offset = std::uint64_t{block} * block_bytes;
  return offset >= file_bytes ? 0 : static_cast<std::size_t>(std::min<std::uint64_t>(block_bytes, file_bytes - offset));
}

Result<std::string> read_block_of_file(const StageFolder& folder, const StageItem& item, std::uint32_t block,
                                       std::size_t block_bytes) {
  MUSTER_ASSIGN_OR_RETURN(const base::UniqueFd parent, folder.parent_of(item, false));
  const std::string name = item.path.substr(item.path.rfind('/') + 1);
  const base::UniqueFd file(::openat(parent.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.valid()) return base::errno_error(errno, "read " + base::printable(item.path));
  const std::size_t size = size_of_block(item.size, block_bytes, block);
  MUSTER_ASSIGN_OR_RETURN(std::string bytes, read_at(file.get(), std::uint64_t{block} * block_bytes, size));
  if (bytes.size() < size) return base::failed_precondition("{} is shorter now", base::printable(item.path));
  return bytes;
}

BlockFile::BlockFile(const StageFolder& folder, StageItem item, std::size_t block_bytes)
    : folder_(folder), item_(std::move(item)), block_bytes_(block_bytes) {}

BlockFile::~BlockFile() {
  if (is_private_) drop_part();
}

Status BlockFile::failed(int errno_value, std::string_view what) const {
  return base::errno_error(
      errno_value, fmt::format("{} {}/{}", what, base::printable(folder_.directory()), base::printable(item_.path)));
}

Result<std::string> BlockFile::read_from(int file, std::uint32_t block) const {
  return read_at(file, std::uint64_t{block} * block_bytes_, size_of_block(item_.size, block_bytes_, block));
}

std::string BlockFile::shared_part_name() const {
  const std::string name = item_.path.substr(item_.path.rfind('/') + 1);
  const auto digest = base::sha256_of(name);
  std::string digits;
  for (const char byte : digest.ok() ? *digest : base::random_hex(kNameHashDigits)) {
    digits += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  }
  return fmt::format("{}.part.{}", StageFolder::kHalfPrefix, digits.substr(0, kNameHashDigits));
}

// Opens the folder of the file, the existing file, and the part that an earlier staging has left.
Status BlockFile::open() {
  if (is_open_) return base::ok_status();
  MUSTER_ASSIGN_OR_RETURN(parent_, folder_.parent_of(item_, true));
  const std::string name = item_.path.substr(item_.path.rfind('/') + 1);
  old_.reset(::openat(parent_.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat info {};
  // Another owner could change the content after the check.
  const bool is_usable =
      old_.valid() && ::fstat(old_.get(), &info) == 0 && S_ISREG(info.st_mode) && base::is_trusted_owner(info.st_uid);
  if (!is_usable) old_.reset();
  resume_part();
  is_open_ = true;
  return base::ok_status();
}

void BlockFile::resume_part() {
  const std::string name = shared_part_name();
  base::UniqueFd part(::openat(parent_.get(), name.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat info {};
  if (!part.valid() || !try_lock(part.get()) || ::fstat(part.get(), &info) != 0) return;
  const bool is_ours = S_ISREG(info.st_mode) && info.st_uid == ::geteuid() && info.st_nlink == 1;
  if (!is_ours || !is_same_file(parent_.get(), name, info)) return;
  if (::fchmod(part.get(), 0600) != 0 || ::ftruncate(part.get(), static_cast<off_t>(item_.size)) != 0) return;
  part_ = std::move(part);
  name_of_part_ = name;
  was_resumed_ = true;
}

Result<bool> BlockFile::check(const std::string& hash) {
  const std::lock_guard lock(mutex_);
  MUSTER_RETURN_IF_ERROR(open());
  const auto block = static_cast<std::uint32_t>(hashes_.size());
  hashes_.push_back(hash);
  if (was_resumed_) {
    const auto bytes = read_from(part_.get(), block);
    if (bytes.ok() && has_hash(*bytes, hash)) return true;
  }
  if (old_.valid()) {
    // A block that cannot be read is fetched.
    const auto bytes = read_from(old_.get(), block);
    if (bytes.ok() && has_hash(*bytes, hash)) {
      if (part_.valid()) MUSTER_RETURN_IF_ERROR(write_block(block, *bytes));
      return true;
    }
  }
  if (!part_.valid()) MUSTER_RETURN_IF_ERROR(make_part());
  return false;
}

base::UniqueFd BlockFile::create_part(const std::string& name) const {
  constexpr int kFlags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  return base::UniqueFd(::openat(parent_.get(), name.c_str(), kFlags, 0600));
}

// Makes the partial file, and copies into it the blocks of the existing file that were checked.
Status BlockFile::make_part() {
  name_of_part_ = shared_part_name();
  part_ = create_part(name_of_part_);
  // Another staging may use the file of that name, or take it before it is locked here.
  const bool is_taken = part_.valid() ? !try_lock(part_.get()) && errno == EWOULDBLOCK : errno == EEXIST;
  if (is_taken) {
    name_of_part_ += "." + base::random_hex(8);
    part_ = create_part(name_of_part_);
    is_private_ = true;
  }
  if (!part_.valid()) return failed(errno, "write");
  if (::ftruncate(part_.get(), static_cast<off_t>(item_.size)) != 0) {
    const int problem = errno;
    drop_part();
    return failed(problem, "write");
  }
  // The last hash is that of the first block that the existing file does not have.
  for (std::size_t i = 0; i + 1 < hashes_.size(); ++i) {
    const auto block = static_cast<std::uint32_t>(i);
    MUSTER_ASSIGN_OR_RETURN(const std::string bytes, read_from(old_.get(), block));
    if (!has_hash(bytes, hashes_[i])) {
      return base::failed_precondition("{}/{} changed on that host while it was staged: start the job again",
                                       base::printable(folder_.directory()), base::printable(item_.path));
    }
    MUSTER_RETURN_IF_ERROR(write_block(block, bytes));
  }
  return base::ok_status();
}

Status BlockFile::write_block(std::uint32_t block, std::string_view bytes) {
  const std::uint64_t offset = std::uint64_t{block} * block_bytes_;
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count =
        ::pwrite(part_.get(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      const int problem = errno;
      drop_part();  // a full disk gets its room back
      return failed(problem, "write");
    }
    done += static_cast<std::size_t>(count);
  }
  return base::ok_status();
}

Status BlockFile::put(std::uint32_t block, std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  if (!part_.valid()) return base::failed_precondition("no part of {} is open", base::printable(item_.path));
  return write_block(block, bytes);
}

Result<std::string> BlockFile::read(std::uint32_t block) const {
  const std::lock_guard lock(mutex_);
  const int file = part_.valid() ? part_.get() : old_.get();
  if (file < 0) return base::failed_precondition("no part of {} is open", base::printable(item_.path));
  return read_from(file, block);
}

Status BlockFile::finish() {
  const std::lock_guard lock(mutex_);
  MUSTER_RETURN_IF_ERROR(open());
  if (!part_.valid()) {
    struct stat info {};
    const bool is_right =
        old_.valid() && ::fstat(old_.get(), &info) == 0 && static_cast<std::uint64_t>(info.st_size) == item_.size;
    if (is_right) return folder_.keep(item_);
    hashes_.emplace_back();  // stands for a block after the last one, so that all are copied
    MUSTER_RETURN_IF_ERROR(make_part());
  }
  MUSTER_RETURN_IF_ERROR(folder_.complete(item_, parent_.get(), part_, name_of_part_));
  part_.reset();
  old_.reset();
  return base::ok_status();
}

void BlockFile::drop_part() {
  if (part_.valid()) (void)::unlinkat(parent_.get(), name_of_part_.c_str(), 0);
  part_.reset();
}

}  // namespace muster::agent::stage
