// The whole of pack_environment(). Read it first, then write_archive(), then Writer.
#include "launcherd/stage/env_packer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <thread>
#include <utility>

#include "base/sha256.h"
#include "base/strings.h"
#include "proto/env_archive.h"

namespace muster::launcherd::inline stage {
namespace {

using base::Result;
using base::Status;

constexpr int kLevel = 3;             // of Zstandard: about as fast as a disk
constexpr unsigned kMostWorkers = 8;  // threads that compress
constexpr std::size_t kReadAtOnce = std::size_t{256} << 10;
constexpr std::string_view kAgentsMark = ".muster-env";  // agent/stage/env_store.h

struct FreeContext {
  void operator()(ZSTD_CCtx* context) const { ::ZSTD_freeCCtx(context); }
};

Status env_error(int problem, std::string_view what, const std::string& path) {
  return base::errno_error(problem, fmt::format("--stage-env: {} {}", what, base::printable(path)));
}

// Compresses what is added, and hashes both the entries and the file.
class Writer {
 public:
  Writer(int fd, std::string path, proto::EnvDigest digest, base::Sha256 hash)
      : fd_(fd),
        path_(std::move(path)),
        digest_(std::move(digest)),
        hash_(std::move(hash)),
        context_(::ZSTD_createCCtx()),
        piece_(::ZSTD_CStreamOutSize(), '\0') {
    if (context_ == nullptr) return;
    const auto set = [this](ZSTD_cParameter what, int value) {
      (void)::ZSTD_CCtx_setParameter(context_.get(), what, value);
    };
    set(ZSTD_c_compressionLevel, kLevel);
    // A library without threads refuses this, and then compresses more slowly.
    set(ZSTD_c_nbWorkers, static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, kMostWorkers)));
  }

  Status add_magic() { return compress(proto::kEnvMagic, ZSTD_e_continue); }

  Status add(const proto::EnvEntry& entry) {
    digest_.add(entry);
    return compress(proto::env_header(entry), ZSTD_e_continue);
  }

  Status add_content(std::string_view bytes) {
    digest_.add_content(bytes);
    return compress(bytes, ZSTD_e_continue);
  }

  // Returns the id and the hash of the file.
  Result<std::pair<std::string, std::string>> finish() {
    MUSTER_RETURN_IF_ERROR(add({.kind = proto::EnvEntry::Kind::kEnd}));
    MUSTER_RETURN_IF_ERROR(compress("", ZSTD_e_end));
    MUSTER_ASSIGN_OR_RETURN(std::string id, digest_.finish());
    MUSTER_ASSIGN_OR_RETURN(const std::string digest, hash_.finish());
    return std::pair(std::move(id), base::hex_of(digest));
  }

  std::uint64_t written() const { return written_; }

 private:
  Status compress(std::string_view bytes, ZSTD_EndDirective how) {
    if (context_ == nullptr) return base::resource_exhausted("--stage-env: no memory to pack the environment");
    ZSTD_inBuffer from{bytes.data(), bytes.size(), 0};
    std::size_t left = 0;
    do {
      ZSTD_outBuffer to{piece_.data(), piece_.size(), 0};
      left = ::ZSTD_compressStream2(context_.get(), &to, &from, how);
      if (::ZSTD_isError(left) != 0) {
        return base::internal_error("--stage-env: compression failed: {}", ::ZSTD_getErrorName(left));
      }
      const std::string_view packed(piece_.data(), to.pos);
      hash_.add(packed);
      written_ += packed.size();
      const Status status = base::write_all_blocking(fd_, packed.data(), packed.size());
      if (!status.ok()) return status.with_context(fmt::format("--stage-env: {}", base::printable(path_)));
    } while (how == ZSTD_e_end ? left > 0 : from.pos < from.size);
    return base::ok_status();
  }

  int fd_;
  std::string path_;
  proto::EnvDigest digest_;
  base::Sha256 hash_;
  std::unique_ptr<ZSTD_CCtx, FreeContext> context_;
  std::string piece_;
  std::uint64_t written_ = 0;
};

// Removes the file at its end, unless it got another name.
class NewFile {
 public:
  explicit NewFile(std::string path)
      : path_(std::move(path)), fd_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)) {}
  ~NewFile() { (void)::unlink(path_.c_str()); }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  int fd() const { return fd_.get(); }
  bool valid() const { return fd_.valid(); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  base::UniqueFd fd_;
};

std::int64_t modified_ns(const struct stat& info) {
  return static_cast<std::int64_t>(info.st_mtim.tv_sec) * 1'000'000'000 + info.st_mtim.tv_nsec;
}

Status add_file(const std::string& path, const v1::StageEntry& entry, Writer& writer, EnvProgress& progress,
                const std::atomic<bool>& stop) {
  const base::UniqueFd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.valid()) return env_error(errno, "read", path);
  std::string piece(static_cast<std::size_t>(std::min<std::uint64_t>(kReadAtOnce, entry.size())), '\0');
  std::uint64_t left = entry.size();
  while (left > 0) {
    if (stop) return base::cancelled("--stage-env: cancelled");
    const ssize_t count = ::read(file.get(), piece.data(), std::min<std::uint64_t>(piece.size(), left));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return env_error(errno, "read", path);
    if (count == 0) break;
    left -= static_cast<std::uint64_t>(count);
    progress.done += static_cast<std::uint64_t>(count);
    MUSTER_RETURN_IF_ERROR(writer.add_content(std::string_view(piece).substr(0, static_cast<std::size_t>(count))));
  }
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return env_error(errno, "look at", path);
  const bool is_same =
      static_cast<std::uint64_t>(info.st_size) == entry.size() && modified_ns(info) == entry.mtime_ns();
  if (is_same && left == 0) return base::ok_status();
  return base::failed_precondition("--stage-env: {} changed while it was packed: start the job again",
                                   base::printable(path));
}

Status add_tree(const StageTree& tree, const std::vector<std::string>& prefixes, Writer& writer, EnvProgress& progress,
                const std::atomic<bool>& stop) {
  using Kind = proto::EnvEntry::Kind;
  MUSTER_RETURN_IF_ERROR(writer.add_magic());
  for (const std::string& prefix : prefixes) {
    MUSTER_RETURN_IF_ERROR(writer.add({.kind = Kind::kPrefix, .size = prefix.size()}));
    MUSTER_RETURN_IF_ERROR(writer.add_content(prefix));
  }
  for (const v1::StageEntry& entry : tree.entries) {
    if (stop) return base::cancelled("--stage-env: cancelled");
    proto::EnvEntry packed{.kind = Kind::kFile,
                           .mode = entry.mode(),
                           .mtime_ns = entry.mtime_ns(),
                           .size = entry.size(),
                           .path = entry.path()};
    if (entry.kind() == v1::StageEntry::KIND_FOLDER) packed.kind = Kind::kFolder;
    if (entry.kind() == v1::StageEntry::KIND_LINK) {
      packed.kind = Kind::kLink;
      packed.size = entry.target().size();
    }
    MUSTER_RETURN_IF_ERROR(writer.add(packed));
    if (packed.kind == Kind::kLink) MUSTER_RETURN_IF_ERROR(writer.add_content(entry.target()));
    if (packed.kind != Kind::kFile) continue;
    MUSTER_RETURN_IF_ERROR(add_file(tree.root + "/" + entry.path(), entry, writer, progress, stop));
  }
  return base::ok_status();
}

// The scan's errors are those of --stage.
Status as_environment(const Status& status) {
  constexpr std::string_view kOther = "--stage: ";
  const std::string& message = status.message();
  if (!message.starts_with(kOther)) return status;
  return base::error(status.code(), "--stage-env: {}", message.substr(kOther.size()));
}

Result<StageTree> list(const std::string& source, const std::string& never_staged, const std::atomic<bool>& stop) {
  auto tree = scan_stage_source(source, never_staged, &stop);
  if (!tree.ok()) return as_environment(tree.status());
  if (!tree->is_folder) {
    return base::invalid_argument("--stage-env: {} is not a folder: name the folder of the environment",
                                  base::printable(source));
  }
  // An environment that was staged before, and is staged from its copy.
  std::erase_if(tree->entries, [](const v1::StageEntry& entry) { return entry.path() == kAgentsMark; });
  return tree;
}

// Returns the paths under which files of the environment may know it.
std::vector<std::string> prefixes_of(const std::string& root) {
  std::vector<std::string> prefixes{root};
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(root.c_str(), nullptr), std::free);
  if (real != nullptr && root != real.get()) prefixes.emplace_back(real.get());
  std::ranges::sort(prefixes, std::greater<>(), &std::string::size);
  return prefixes;
}

Status write_archive(const StageTree& tree, const EnvCache& cache, EnvArchiveName name, EnvProgress& progress,
                     const std::atomic<bool>& stop, PackedEnv& packed) {
  const NewFile file(cache.new_path());
  if (!file.valid()) return env_error(errno, "make", file.path());
  MUSTER_ASSIGN_OR_RETURN(proto::EnvDigest digest, proto::EnvDigest::begin());
  MUSTER_ASSIGN_OR_RETURN(base::Sha256 hash, base::Sha256::begin());
  Writer writer(file.fd(), file.path(), std::move(digest), std::move(hash));
  MUSTER_RETURN_IF_ERROR(add_tree(tree, packed.prefixes, writer, progress, stop));
  MUSTER_ASSIGN_OR_RETURN(const auto hashes, writer.finish());
  name.id = hashes.first;
  name.sha256 = hashes.second;
  MUSTER_ASSIGN_OR_RETURN(packed.archive, cache.keep(file.path(), name));
  packed.is_new = true;
  return base::ok_status();
}

}  // namespace

Result<PackedEnv> pack_environment(const std::string& source, const std::string& never_staged,
                                   const std::string& cache_folder, EnvProgress& progress,
                                   const std::atomic<bool>& stop) {
  MUSTER_ASSIGN_OR_RETURN(const StageTree tree, list(source, never_staged, stop));
  progress.done = 0;
  progress.total = tree.bytes;
  PackedEnv packed;
  packed.prefixes = prefixes_of(tree.root);
  packed.bytes = tree.bytes;
  packed.files =
      static_cast<std::size_t>(std::ranges::count(tree.entries, v1::StageEntry::KIND_FILE, &v1::StageEntry::kind));
  auto cache = EnvCache::open(cache_folder);
  if (!cache.ok()) return cache.status().with_context("--stage-env");
  EnvArchiveName name;
  MUSTER_ASSIGN_OR_RETURN(name.source, env_source_key(tree.root));
  MUSTER_ASSIGN_OR_RETURN(name.fingerprint, env_fingerprint(tree, packed.prefixes));
  if (auto found = cache->find(name.source, name.fingerprint)) {
    packed.archive = *std::move(found);
  } else {
    MUSTER_RETURN_IF_ERROR(write_archive(tree, *cache, name, progress, stop, packed));
  }
  struct stat info {};
  if (::fstat(packed.archive.held.get(), &info) != 0) return env_error(errno, "look at", packed.archive.path);
  packed.packed_bytes = static_cast<std::uint64_t>(info.st_size);
  return packed;
}

}  // namespace muster::launcherd::stage
