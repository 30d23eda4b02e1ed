#include "launcherd/enrol/site_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/directory.h"
#include "base/env.h"
#include "base/file.h"
#include "base/trusted_folder.h"
#include "base/unique_fd.h"
#include "launcherd/bootstrap/remote_command.h"

namespace muster::launcherd::inline enrol {
namespace {

constexpr std::size_t kMostAddresses = 16;
constexpr std::string_view kJoinPrefix = "join-";
constexpr std::string_view kHostsSuffix = ".hosts";
constexpr std::chrono::hours kHostsAge{1};

// Hosts run programs from this folder, so no other user may be able to replace the folder or the programs.
base::Status make_agent_folder(const std::string& path) {
  MUSTER_ASSIGN_OR_RETURN(const base::UniqueFd folder,
                          base::open_folder_by_trusted_path(path, {.made_mode = 0700, .needs_sticky = true}));
  struct stat info {};
  if (::fstat(folder.get(), &info) != 0) return base::errno_error(errno, fmt::format("look at {}", path));
  return base::check_folder_of_own_files(info, path);
}

bool is_same_program(const std::string& path, std::string_view bytes) {
  struct stat info {};
  const bool is_ours = ::lstat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == ::geteuid() &&
                       (info.st_mode & 022) == 0 && (info.st_mode & 0100) != 0;
  if (!is_ours || static_cast<std::size_t>(info.st_size) != bytes.size()) return false;
  const auto content = base::read_file(path, bytes.size() + 1);
  return content.ok() && *content == bytes;
}

// True for a list of hosts that is older than kHostsAge and whose join file is gone. No program reads such a list.
bool is_left_over(const std::string& path, const struct stat& info, base::WallTime now) {
  const std::string join_file = path.substr(0, path.size() - kHostsSuffix.size());
  return ::access(join_file.c_str(), F_OK) != 0 &&
         base::WallTime(std::chrono::seconds(info.st_mtime)) < now - kHostsAge;
}

void remove_expired(const std::string& directory) {
  const base::WallTime now = base::SystemClock().wall();
  for (const std::string& name : base::entries_of(directory)) {
    if (!name.starts_with(kJoinPrefix)) continue;
    const std::string path = directory + "/" + name;
    struct stat info {};
    if (::lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != ::geteuid()) continue;
    if (name.ends_with(kHostsSuffix)) {
      if (is_left_over(path, info, now)) ::unlink(path.c_str());
      continue;
    }
    const auto text = base::read_file(path, proto::kMaxJoinFile);
    const auto file = text.ok() ? proto::parse_join_file(*text) : text.status();
    if (file.ok() && file->expires < now) ::unlink(path.c_str());
  }
}

}  // namespace

OwnedFile& OwnedFile::operator=(OwnedFile&& other) noexcept {
  if (this != &other) {
    remove();
    path_ = std::exchange(other.path_, {});
  }
  return *this;
}

base::Result<OwnedFile> OwnedFile::write(const std::string& path, std::string_view content) {
  const base::UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd.valid()) return base::errno_error(errno, fmt::format("create {}", path));
  OwnedFile file;
  file.path_ = path;
  // Closes the file on return. Network file systems show the whole file to other hosts only after the close.
  MUSTER_RETURN_IF_ERROR(base::write_all_blocking(fd.get(), content.data(), content.size()).with_context(path));
  return file;
}

void OwnedFile::remove() {
  if (!path_.empty()) ::unlink(path_.c_str());
  path_.clear();
}

base::Result<std::string> site_directory(const std::string& agent_dir, const std::string& home) {
  MUSTER_ASSIGN_OR_RETURN(const RemotePaths paths, remote_paths(agent_dir, "x", "x", "x"));
  if (!paths.directory.starts_with("~/")) return paths.directory;
  const std::string directory = home + paths.directory.substr(1);
  // The directory becomes part of command lines, so check its characters.
  const auto checked = remote_paths(directory, "x", "x", "x");
  if (checked.ok()) return directory;
  return base::invalid_argument(
      "cannot start the agent from {}: choose another folder with --agent-dir DIR; all hosts must see "
      "it, and its name may hold [A-Za-z0-9._/+-]",
      directory);
}

base::Result<std::string> place_agent(const std::string& directory, const std::string& agent_id,
                                      const AgentImage& image) {
  MUSTER_RETURN_IF_ERROR(make_agent_folder(directory).with_context("--agent-dir"));
  remove_expired(directory);
  MUSTER_ASSIGN_OR_RETURN(const auto content, image.load());
  const std::string path = fmt::format("{}/agent-{}-{}", directory, agent_id, image.machine());
  if (is_same_program(path, content->bytes)) return path;
  MUSTER_RETURN_IF_ERROR(base::write_file_atomically(path, content->bytes, 0700));
  return path;
}

std::vector<std::pair<std::string, std::string>> join_variables(const std::string& home, const std::string& user) {
  std::vector<std::pair<std::string, std::string>> variables = {{"HOME", home}, {"USER", user}, {"LOGNAME", user}};
  for (const char* const name : {"SHELL", "PATH"}) {
    if (auto value = base::env_var(name)) variables.emplace_back(name, std::move(*value));
  }
  std::erase_if(variables, [](const auto& each) {
    return each.second.empty() || each.second.find('\n') != std::string::npos || each.second.size() > 2048;
  });
  return variables;
}

base::Result<std::vector<base::IpAddress>> join_addresses() {
  MUSTER_ASSIGN_OR_RETURN(const auto interfaces, base::interface_addresses());
  std::vector<base::IpAddress> addresses;
  for (const base::InterfaceAddress& entry : interfaces) {
    // Skip loopback addresses if another address was found, because other hosts cannot reach them.
    if (entry.address.is_loopback() && !addresses.empty()) continue;
    if (addresses.size() < kMostAddresses) addresses.push_back(entry.address);
  }
  if (addresses.empty()) {
    return base::unavailable("this host has no network address at which agents could reach it");
  }
  return addresses;
}

}  // namespace muster::launcherd::enrol
