#include "cli/verbs/copy_archive.h"

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <utility>
#include <vector>

namespace muster::cli::inline verbs {
namespace {

int reap_blocking(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

}  // namespace

base::Result<CopyArchive> CopyArchive::pack(const std::string& folder) {
  return start(folder, true);
}

base::Result<CopyArchive> CopyArchive::unpack(const std::string& folder) {
  return start(folder, false);
}

base::Result<CopyArchive> CopyArchive::start(const std::string& folder, bool is_packing) {
  MUSTER_ASSIGN_OR_RETURN(base::FdPair pipe, base::make_pipe());
  base::UniqueFd& theirs = is_packing ? pipe.second : pipe.first;
  base::UniqueFd& ours = is_packing ? pipe.first : pipe.second;
  std::vector<std::string> words = {"tar", "-C", folder};
  // Without these options, root would get files of other owners, and programs with setuid.
  if (!is_packing) words.insert(words.end(), {"--no-same-owner", "--no-same-permissions"});
  words.insert(words.end(), {is_packing ? "-cf" : "-xf", "-"});
  if (is_packing) words.emplace_back(".");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::vector<char*> variables;
  for (char** each = environ; *each != nullptr; ++each) {
    if (!std::string_view(*each).starts_with("TAR_OPTIONS=")) variables.push_back(*each);
  }
  variables.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawn_file_actions_adddup2(&actions, theirs.get(), is_packing ? STDOUT_FILENO : STDIN_FILENO);
  // This process may block signals, and ignores SIGPIPE.
  sigset_t none;
  sigset_t pipe_only;
  ::sigemptyset(&none);
  ::sigemptyset(&pipe_only);
  ::sigaddset(&pipe_only, SIGPIPE);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &pipe_only);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t pid = 0;
  const int error = ::posix_spawnp(&pid, "tar", &actions, &attributes, argv.data(), variables.data());
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return base::errno_error(error, "start tar, which copies folders");
  return CopyArchive(pid, std::move(ours));
}

CopyArchive::CopyArchive(CopyArchive&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)), fd_(std::move(other.fd_)) {}

CopyArchive::~CopyArchive() {
  fd_.reset();
  if (pid_ == 0) return;
  ::kill(pid_, SIGKILL);  // unreaped, so no other process can have its pid
  reap_blocking(pid_);
}

base::Status CopyArchive::wait_blocking() {
  fd_.reset();
  const int status = reap_blocking(std::exchange(pid_, 0));
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return base::ok_status();
  if (WIFEXITED(status)) return base::data_loss("tar failed here with exit code {}", WEXITSTATUS(status));
  return base::data_loss("tar was killed here by signal {}", WTERMSIG(status));
}

}  // namespace muster::cli::verbs
