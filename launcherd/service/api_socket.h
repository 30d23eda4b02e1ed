// ApiSocket manages the Unix sockets of launchers, in a directory that only the user may enter. Each foreground job has
// a socket "job-<id>.sock"; launcherd has "launcherd.sock".
// Thread: calls block as long as the file system does.
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

// Returns $XDG_RUNTIME_DIR/muster, if that variable is set, and ${MUSTER_TMPDIR:-/tmp}/muster-<uid>. A launcher uses
// the first directory that it can create. A client searches all of them.
std::vector<std::string> api_directories(const base::Environment& environment);

enum class SocketUse { kFree, kInUse };

// A listening socket and its file. The destructor removes the file, and the directory if it is then empty, unless the
// socket was adopted.
class ApiSocket {
 public:
  static base::Result<ApiSocket> open(const std::vector<std::string>& directories, const std::string& job_id);
  // Opens launcherd's socket in the first directory that can be created. ALREADY_EXISTS: another launcherd listens
  // there.
  static base::Result<ApiSocket> open_for_daemon(const std::vector<std::string>& directories);
  // Opens a socket at an absolute path. Creates missing directories. Returns the errors of open_for_daemon().
  static base::Result<ApiSocket> open_at(const std::string& path);
  // Looks at an absolute path as open_at() would, but makes and changes nothing. A launcherd that listens there is no
  // error.
  static base::Result<SocketUse> look(const std::string& path);
  // Takes a listening Unix socket that another process has opened, such as systemd. Its file stays. INVALID_ARGUMENT:
  // it is no such socket, it has no file, or other users may enter the file's directory.
  static base::Result<ApiSocket> adopt(base::UniqueFd fd);
  ~ApiSocket();
  ApiSocket(ApiSocket&& other) noexcept;
  ApiSocket& operator=(ApiSocket&&) = delete;

  int fd() const { return fd_.get(); }
  const std::string& path() const { return path_; }

 private:
  ApiSocket(std::string path, base::UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  std::string path_;
  base::UniqueFd fd_;
  bool is_adopted_ = false;
};

struct FoundLauncher {
  std::string job_id;
  std::string path;
};

// Returns the jobs whose launcher is alive, ordered by id. Removes sockets that killed launchers left.
std::vector<FoundLauncher> find_launchers(const std::vector<std::string>& directories);

inline constexpr std::string_view kDaemonSocket = "launcherd.sock";
// Returns launcherd's socket in its default place. nullopt if no launcherd listens there.
std::optional<std::string> find_daemon(const std::vector<std::string>& directories);

// Connects to one of these sockets; the connection blocks. UNAVAILABLE: the launcher has ended. DEADLINE_EXCEEDED: it
// accepts no connection in time.
base::Result<base::UniqueFd> connect_launcher(const std::string& path, std::chrono::milliseconds patience);

// True if the process at the other end of a connected Unix socket belongs to our user.
bool is_own_peer(int fd);

}  // namespace muster::launcherd::service
