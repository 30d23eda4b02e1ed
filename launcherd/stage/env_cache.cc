#include "launcherd/stage/env_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <utility>

#include "base/directory.h"
#include "base/file.h"
#include "base/ids.h"
#include "base/sha256.h"
#include "base/strings.h"
#include "proto/env_archive.h"

namespace muster::launcherd::inline stage {
namespace {

using base::Result;

constexpr std::string_view kNew = ".new.";
constexpr std::string_view kEnd = ".env";
constexpr std::size_t kKeyDigits = 16;
constexpr std::size_t kNameBytes = 8;  // random bytes in a name
constexpr std::chrono::hours kUnused{30 * 24};
constexpr std::chrono::hours kAbandoned{24};

bool is_hex(std::string_view text, std::size_t size) {
  return text.size() == size && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// How long nobody has made the file or found it.
std::chrono::seconds idle_of(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) return {};
  const auto now =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch());
  return now - std::chrono::seconds(std::max(info.st_mtim.tv_sec, info.st_atim.tv_sec));
}

// The time of the change stays: a program that sends the file would say that it changed.
void note_use(const std::string& path) {
  const timespec times[] = {{.tv_sec = 0, .tv_nsec = UTIME_NOW}, {.tv_sec = 0, .tv_nsec = UTIME_OMIT}};
  (void)::utimensat(AT_FDCWD, path.c_str(), times, 0);  // without it the archive is removed too early
}

// Removes an archive that nobody holds.
void remove_archive(const std::string& path) {
  // NFS gives the exclusive lock only to a descriptor that may write.
  const base::UniqueFd fd(::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC));
  if (fd.valid() && ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) (void)::unlink(path.c_str());
}

}  // namespace

std::string file_name_of(const EnvArchiveName& name) {
  return fmt::format("{}-{}-{}-{}{}", name.source, name.fingerprint, name.id, name.sha256, kEnd);
}

std::optional<EnvArchiveName> parse_env_archive_name(std::string_view file_name) {
  if (!file_name.ends_with(kEnd)) return std::nullopt;
  file_name.remove_suffix(kEnd.size());
  const auto parts = base::split(file_name, '-');
  const bool is_right = parts.size() == 4 && is_hex(parts[0], kKeyDigits) && is_hex(parts[1], 2 * base::kSha256Size) &&
                        proto::is_env_id(parts[2]) && is_hex(parts[3], 2 * base::kSha256Size);
  if (!is_right) return std::nullopt;
  return EnvArchiveName{std::string(parts[0]), std::string(parts[1]), std::string(parts[2]), std::string(parts[3])};
}

Result<std::string> env_fingerprint(const StageTree& tree, const std::vector<std::string>& prefixes) {
  MUSTER_ASSIGN_OR_RETURN(base::Sha256 hash, base::Sha256::begin());
  hash.add(proto::kEnvMagic);
  for (const std::string& prefix : prefixes) hash.add(prefix + '\0');
  for (const v1::StageEntry& entry : tree.entries) {
    // A path holds no NUL.
    hash.add(
        fmt::format("{} {:o} {} {} ", static_cast<int>(entry.kind()), entry.mode(), entry.size(), entry.mtime_ns()));
    hash.add(entry.path() + '\0' + entry.target() + '\0');
  }
  MUSTER_ASSIGN_OR_RETURN(const std::string digest, hash.finish());
  return base::hex_of(digest);
}

Result<std::string> env_source_key(const std::string& source) {
  MUSTER_ASSIGN_OR_RETURN(const std::string digest, base::sha256_of(source));
  return base::hex_of(digest).substr(0, kKeyDigits);
}

Result<EnvCache> EnvCache::open(const std::string& folder) {
  std::error_code failed;
  std::filesystem::create_directories(std::filesystem::path(folder).parent_path(), failed);
  if (failed) return base::errno_error(failed.value(), "make the folder of " + base::printable(folder));
  MUSTER_RETURN_IF_ERROR(base::make_private_directory(folder));
  return EnvCache(folder);
}

std::optional<EnvArchive> EnvCache::find(const std::string& source, const std::string& fingerprint) const {
  for (const std::string& file_name : base::entries_of(folder_)) {
    const auto name = parse_env_archive_name(file_name);
    if (!name || name->source != source || name->fingerprint != fingerprint) continue;
    auto held = hold(*name);
    if (!held.ok()) continue;
    note_use(held->path);
    return *std::move(held);
  }
  return std::nullopt;
}

Result<EnvArchive> EnvCache::hold(const EnvArchiveName& name) const {
  EnvArchive archive{.path = folder_ + "/" + file_name_of(name), .name = name, .held = {}};
  archive.held.reset(::open(archive.path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!archive.held.valid()) return base::errno_error(errno, "open " + base::printable(archive.path));
  // A file system without locks keeps nobody from using the archive.
  if (::flock(archive.held.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return base::not_found("{} is being removed", base::printable(archive.path));
  }
  struct stat info {};
  if (::stat(archive.path.c_str(), &info) != 0)
    return base::errno_error(errno, "open " + base::printable(archive.path));
  return archive;
}

std::string EnvCache::new_path() const {
  return fmt::format("{}/{}{}", folder_, kNew, base::random_hex(kNameBytes));
}

Result<EnvArchive> EnvCache::keep(const std::string& new_path, const EnvArchiveName& name) const {
  const std::string path = folder_ + "/" + file_name_of(name);
  // Another program may have packed the same at the same time, and may be sending it. An archive that is being sent
  // must not be replaced. So link() is tried first, which never replaces a file. Not every file system has links.
  const bool is_named = ::link(new_path.c_str(), path.c_str()) == 0 || errno == EEXIST;
  if (!is_named && ::rename(new_path.c_str(), path.c_str()) != 0) {
    return base::errno_error(errno, "rename an archive to " + base::printable(path));
  }
  if (is_named) (void)::unlink(new_path.c_str());
  MUSTER_ASSIGN_OR_RETURN(EnvArchive archive, hold(name));
  remove_old(name);
  return archive;
}

void EnvCache::remove_old(const EnvArchiveName& newest) const {
  for (const std::string& file_name : base::entries_of(folder_)) {
    const std::string path = folder_ + "/" + file_name;
    const auto idle = idle_of(path);
    if (file_name.starts_with(kNew) && idle >= kAbandoned) (void)::unlink(path.c_str());
    const auto name = parse_env_archive_name(file_name);
    if (!name || *name == newest) continue;
    if (name->source == newest.source || idle >= kUnused) remove_archive(path);
  }
}

Result<bool> EnvCache::check(const EnvArchive& archive, const std::atomic<bool>* stop) {
  MUSTER_ASSIGN_OR_RETURN(const std::string digest, base::sha256_of_file(archive.held.get(), stop));
  if (base::hex_of(digest) == archive.name.sha256) return true;
  (void)::unlink(archive.path.c_str());
  return false;
}

}  // namespace muster::launcherd::stage
