// Where the Unix sockets of launchers lie: a directory of the user's that nobody else may enter, and in it one socket a
// foreground job, "job-<id>.sock", and launcherd's, "launcherd.sock". Blocks for as long as the file system does.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/env.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace muster::launcherd::inline service {

// $XDG_RUNTIME_DIR/muster where there is one, and ${MUSTER_TMPDIR:-/tmp}/muster-<uid>: a launcher uses the first that
// it can make, who looks for launchers looks into all.
std::vector<std::string> api_directories(const base::Environment& environment);

// A listening socket and its file, which is removed at the end, with the directory if nothing else is in it.
class ApiSocket {
 public:
  static base::Result<ApiSocket> open(const std::vector<std::string>& directories, const std::string& job_id);
  // launcherd's, in the first directory that can be made. ALREADY_EXISTS: another launcherd listens there.
  static base::Result<ApiSocket> open_for_daemon(const std::vector<std::string>& directories);
  // At an absolute path; its directory is made if it is missing, with its parents there. Errors as before.
  static base::Result<ApiSocket> open_at(const std::string& path);
  ~ApiSocket();
  ApiSocket(ApiSocket&& other) noexcept;
  ApiSocket& operator=(ApiSocket&&) = delete;

  int fd() const { return fd_.get(); }
  const std::string& path() const { return path_; }

 private:
  ApiSocket(std::string path, base::UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  std::string path_;
  base::UniqueFd fd_;
};

struct FoundLauncher {
  std::string job_id;
  std::string path;
};

// Jobs whose launcher lives, in order of id. Sockets that a killed launcher has left are removed.
std::vector<FoundLauncher> find_launchers(const std::vector<std::string>& directories);

inline constexpr std::string_view kDaemonSocket = "launcherd.sock";
// Where launcherd listens, unless it was told otherwise; nullopt: nowhere.
std::optional<std::string> find_daemon(const std::vector<std::string>& directories);

// A connection to one of them, which blocks. UNAVAILABLE: it has ended since; DEADLINE_EXCEEDED: it accepts none.
base::Result<base::UniqueFd> connect_launcher(const std::string& path, std::chrono::seconds patience);

// Whether the process at the other end of a connected Unix socket is of our user.
bool is_own_peer(int fd);

}  // namespace muster::launcherd::service
