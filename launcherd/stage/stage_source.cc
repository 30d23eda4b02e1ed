// The whole of StageSource, and the functions that list and read a source.
// Read it in this order: scan_stage_source, TreeScan, read_piece, then StageSource.
#include "launcherd/stage/stage_source.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include "base/sha256.h"
#include "base/strings.h"
#include "base/unique_fd.h"
#include "proto/stage_window.h"

namespace muster::launcherd::inline stage {
namespace {

using base::Result;
using base::Status;

constexpr unsigned kPermissions = 0777;
constexpr int kDeepest = 200;  // depth of folders; each holds a descriptor while it is listed

Status cannot(int problem, std::string_view what, const std::string& path) {
  return base::errno_error(problem, fmt::format("--stage: {} {}", what, base::printable(path)));
}

std::int64_t mtime_of(const struct stat& info) {
  return static_cast<std::int64_t>(info.st_mtim.tv_sec) * 1'000'000'000 + info.st_mtim.tv_nsec;
}

struct FolderId {
  dev_t device = 0;
  ino_t inode = 0;
  bool is(const struct stat& info) const { return inode != 0 && device == info.st_dev && inode == info.st_ino; }
};

Status refuse(const std::string& path) {
  return base::permission_denied("--stage: {} holds launcherd's state and keys: stage another folder",
                                 base::printable(path));
}

class TreeScan {
 public:
  TreeScan(StageTree& tree, const FolderId& refused, const std::atomic<bool>* stop)
      : tree_(tree), refused_(refused), stop_(stop) {}

  // Lists one folder. `prefix` precedes its names, for example "a/b/". It is empty at the root.
  Status list(const std::string& prefix, int depth) {
    const std::string path = tree_.root + "/" + prefix;
    if (depth > kDeepest) return base::resource_exhausted("--stage: {} is too deep", base::printable(path));
    const std::unique_ptr<DIR, int (*)(DIR*)> listing(::opendir(path.c_str()), ::closedir);
    if (listing == nullptr) return cannot(errno, "list", path);
    std::vector<std::string> names;
    while (const dirent* const entry = ::readdir(listing.get())) {
      MUSTER_RETURN_IF_ERROR(go_on());
      const std::string_view name(entry->d_name);
      if (name != "." && name != ".." && !name.starts_with(kStageMark)) names.emplace_back(name);
    }
    std::ranges::sort(names);
    for (const std::string& name : names) MUSTER_RETURN_IF_ERROR(add(prefix + name, depth));
    return base::ok_status();
  }

  void add_file(v1::StageEntry entry, const struct stat& info) {
    entry.set_kind(v1::StageEntry::KIND_FILE);
    entry.set_mode(info.st_mode & kPermissions);
    entry.set_size(static_cast<std::uint64_t>(info.st_size));
    entry.set_mtime_ns(mtime_of(info));
    tree_.bytes += entry.size();
    keep(std::move(entry), info);
  }

 private:
  Status go_on() const {
    return stop_ != nullptr && *stop_ ? base::cancelled("--stage: cancelled") : base::ok_status();
  }

  Status add(const std::string& below, int depth) {
    MUSTER_RETURN_IF_ERROR(go_on());
    const std::string path = tree_.root + "/" + below;
    struct stat info {};
    if (::lstat(path.c_str(), &info) != 0) {
      return errno == ENOENT ? base::ok_status() : cannot(errno, "look at", path);  // the entry was removed meanwhile
    }
    if (tree_.entries.size() >= proto::kMostStageEntries) {
      return base::resource_exhausted("--stage: {} holds more than {} files", base::printable(tree_.root),
                                      proto::kMostStageEntries);
    }
    v1::StageEntry entry;
    entry.set_path(below);
    entry.set_mode(info.st_mode & kPermissions);
    if (S_ISDIR(info.st_mode)) {
      if (refused_.is(info)) return refuse(path);
      entry.set_kind(v1::StageEntry::KIND_FOLDER);
      keep(std::move(entry), info);
      return list(below + "/", depth + 1);
    }
    if (S_ISLNK(info.st_mode)) {
      std::string target(4096, '\0');
      const ssize_t length = ::readlink(path.c_str(), target.data(), target.size());
      if (length < 0) return cannot(errno, "read the link", path);
      target.resize(static_cast<std::size_t>(length));
      entry.set_kind(v1::StageEntry::KIND_LINK);
      entry.set_target(std::move(target));
      keep(std::move(entry), info);
    } else if (S_ISREG(info.st_mode)) {
      add_file(std::move(entry), info);
    }
    return base::ok_status();
  }

  void keep(v1::StageEntry entry, const struct stat& info) {
    tree_.entries.push_back(std::move(entry));
    tree_.inodes.push_back(info.st_ino);
  }

  StageTree& tree_;
  const FolderId refused_;
  const std::atomic<bool>* const stop_;
};

// Returns whether `path` is the folder or lies in it, by its real name.
bool lies_in(const std::string& path, const FolderId& folder) {
  const std::unique_ptr<char, void (*)(void*)> real(::realpath(path.c_str(), nullptr), ::free);
  if (real == nullptr || folder.inode == 0) return false;
  std::string at(real.get());
  while (true) {
    struct stat info {};
    if (::stat(at.c_str(), &info) == 0 && folder.is(info)) return true;
    const std::size_t slash = at.rfind('/');
    if (slash == std::string::npos || at == "/") return false;
    at.resize(std::max<std::size_t>(slash, 1));
  }
}

base::UniqueFd open_file(const std::string& path, StageSource::Link link) {
  const int follow = link == StageSource::Link::kFollow ? 0 : O_NOFOLLOW;
  return base::UniqueFd(::open(path.c_str(), O_RDONLY | follow | O_NONBLOCK | O_CLOEXEC));
}

StageSource::Stamp stamp_of(const struct stat& info) {
  return {.inode = info.st_ino, .size = static_cast<std::uint64_t>(info.st_size), .mtime_ns = mtime_of(info)};
}

// Reads one piece, of at most proto::kStagePiece bytes. Between two pieces the reader checks whether to stop.
Result<std::string> read_piece(const std::string& path, StageSource::Link link, const StageSource::Stamp& stamp,
                               std::uint64_t offset, std::size_t size) {
  const base::UniqueFd file = open_file(path, link);
  if (!file.valid()) return cannot(errno, "read", path);
  std::string piece(size, '\0');
  std::size_t done = 0;
  while (done < size) {
    const ssize_t count = ::pread(file.get(), piece.data() + done, size - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return cannot(errno, "read", path);
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return cannot(errno, "look at", path);
  if (stamp_of(info) != stamp) {  // check after the read, to notice a change during the read
    return base::failed_precondition("--stage: {} changed while it was copied: start the job again",
                                     base::printable(path));
  }
  if (done < size) {
    return base::failed_precondition("--stage: {} is shorter than the file system reports", base::printable(path));
  }
  return piece;
}

Result<std::string> hashes_of(const std::string& path, StageSource::Link link, const StageSource::Stamp& stamp,
                              std::uint64_t offset, std::size_t size, std::size_t block_bytes,
                              const std::atomic<bool>& stop) {
  std::string hashes;
  for (std::size_t done = 0; done < size; done += block_bytes) {
    if (stop) return base::cancelled("--stage: cancelled");
    MUSTER_ASSIGN_OR_RETURN(const std::string block,
                            read_piece(path, link, stamp, offset + done, std::min(block_bytes, size - done)));
    MUSTER_ASSIGN_OR_RETURN(const std::string hash, base::sha256_of(block));
    hashes += hash;
  }
  return hashes;
}

Result<std::string> digest_of(const std::string& path, StageSource::Link link, const std::atomic<bool>& stop) {
  const base::UniqueFd file = open_file(path, link);
  if (!file.valid()) return cannot(errno, "read", path);
  auto digest = base::sha256_of_file(file.get(), &stop);
  return digest.ok() ? digest : digest.status().with_context("--stage: " + base::printable(path));
}

}  // namespace

Result<StageTree> scan_stage_source(const std::string& source, const std::string& never_staged,
                                    const std::atomic<bool>* stop) {
  StageTree tree;
  std::string path = source;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  struct stat info {};
  FolderId refused;
  if (!never_staged.empty()) {
    if (::stat(never_staged.c_str(), &info) != 0) return cannot(errno, "look at", never_staged);
    refused = {.device = info.st_dev, .inode = info.st_ino};
  }
  if (::stat(path.c_str(), &info) != 0) return cannot(errno, "look at", path);
  if (lies_in(path, refused)) return refuse(path);
  TreeScan scan(tree, refused, stop);
  tree.is_folder = S_ISDIR(info.st_mode);
  if (tree.is_folder) {
    tree.root = path;
    MUSTER_RETURN_IF_ERROR(scan.list("", 0));
    return tree;
  }
  if (!S_ISREG(info.st_mode)) {
    return base::invalid_argument("--stage: {} is neither a file nor a folder", base::printable(path));
  }
  const std::size_t slash = path.rfind('/');
  tree.root = slash == std::string::npos ? "." : path.substr(0, std::max<std::size_t>(slash, 1));
  v1::StageEntry entry;
  entry.set_path(path.substr(slash + 1));
  scan.add_file(std::move(entry), info);
  return tree;
}

std::string stage_directory(const std::string& destination, const StageTree& tree, std::string& name) {
  if (tree.is_folder) {
    std::string directory = destination;
    while (directory.size() > 1 && directory.back() == '/') directory.pop_back();
    return directory;
  }
  const std::size_t slash = destination.rfind('/');
  name = destination.substr(slash + 1);
  if (name.empty()) name = tree.entries.front().path();
  return destination.substr(0, std::max<std::size_t>(slash, 1));
}

StageSource::StageSource(base::Loop& loop, std::string never_staged)
    : loop_(loop), never_staged_(std::move(never_staged)) {}

StageSource::~StageSource() = default;

// Runs work on the thread. If no thread can be started, the loop does the work, which is slow but correct.
void StageSource::run(const base::DiskThread::Work& work) {
  if (thread_ == nullptr) {
    auto thread = base::DiskThread::start(loop_);
    if (!thread.ok()) {
      loop_.post(gate_.wrap(work(false)));
      return;
    }
    thread_ = std::move(*thread);
  }
  thread_->add(work);
}

void StageSource::scan(std::string source, std::function<void(Result<StageTree>)> done) {
  run([source = std::move(source), never_staged = never_staged_,
       done = std::move(done)](const std::atomic<bool>& stop) -> base::Loop::Task {
    return [done, tree = std::make_shared<Result<StageTree>>(scan_stage_source(source, never_staged, &stop))] {
      done(std::move(*tree));
    };
  });
}

void StageSource::names(std::string directory, std::string prefix, std::function<void(std::vector<std::string>)> done) {
  run([directory = std::move(directory), prefix = std::move(prefix),
       done = std::move(done)](const std::atomic<bool>& stop) -> base::Loop::Task {
    std::vector<std::string> names;
    const std::unique_ptr<DIR, int (*)(DIR*)> listing(::opendir(directory.c_str()), ::closedir);
    while (const dirent* const entry = listing == nullptr || stop ? nullptr : ::readdir(listing.get())) {
      if (std::string_view(entry->d_name).starts_with(prefix)) names.emplace_back(entry->d_name);
    }
    return [done, names] { done(names); };
  });
}

void StageSource::read(std::string path, Link link, Stamp stamp, std::uint64_t offset, std::size_t size,
                       std::function<void(Result<std::string>)> done) {
  ++reads_begun_;
  run([this, path = std::move(path), link, stamp, offset, size,
       done = std::move(done)](const std::atomic<bool>&) -> base::Loop::Task {
    return [this, done, piece = std::make_shared<Result<std::string>>(read_piece(path, link, stamp, offset, size))] {
      ++reads_ended_;
      done(std::move(*piece));
    };
  });
}

void StageSource::hashes(std::string path, Link link, Stamp stamp, std::uint64_t offset, std::size_t size,
                         std::size_t block_bytes, std::function<void(Result<std::string>)> done) {
  run([path = std::move(path), link, stamp, offset, size, block_bytes,
       done = std::move(done)](const std::atomic<bool>& stop) -> base::Loop::Task {
    return [done, hashes = hashes_of(path, link, stamp, offset, size, block_bytes, stop)] { done(hashes); };
  });
}

void StageSource::digest(std::string path, Link link, std::function<void(Result<std::string>)> done) {
  run([path = std::move(path), link, done = std::move(done)](const std::atomic<bool>& stop) -> base::Loop::Task {
    return [done, digest = digest_of(path, link, stop)] { done(digest); };
  });
}

}  // namespace muster::launcherd::stage
