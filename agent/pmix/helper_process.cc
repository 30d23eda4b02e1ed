#include "agent/pmix/helper_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <utility>

#include "agent/pmix/helper_program.h"
#include "base/strings.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U  // Linux 6.3
#endif

namespace muster::agent::pmix {
namespace {

constexpr int kSocket = 3;  // of the child

base::Result<base::UniqueFd> program_file() {
  const std::string_view program = helper_program();
  if (program.empty()) {
    return base::error(
        base::Code::kUnimplemented,
        "this build of Muster cannot serve Open MPI: it was made without libpmix's headers (libpmix-dev)");
  }
  base::UniqueFd file(::memfd_create("muster-pmix", MFD_CLOEXEC | MFD_EXEC));
  if (!file.valid() && errno == EINVAL) file.reset(::memfd_create("muster-pmix", MFD_CLOEXEC));
  if (!file.valid()) return base::errno_error(errno, "make a file in memory for muster-pmix");
  MUSTER_RETURN_IF_ERROR(base::write_all_blocking(file.get(), program.data(), program.size()));
  return file;
}

// What libpmix must read, and nothing that an outer launcher has said to it.
std::vector<std::string> helper_environment(const std::vector<std::string>& of_ranks, const std::string& directory) {
  std::vector<std::string> environment = {"PMIX_MCA_gds=hash", "TMPDIR=" + directory};
  for (const std::string& entry : of_ranks) {
    if (base::starts_with_any(entry,
                              std::to_array<std::string_view>({"LD_LIBRARY_PATH=", "PATH=", "HOME=", "LANG="}))) {
      environment.push_back(entry);
    }
  }
  return environment;
}

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

base::Result<HelperProcess> HelperProcess::start(const std::vector<std::string>& environment,
                                                 const std::string& directory, bool verbose) {
  MUSTER_ASSIGN_OR_RETURN(const base::UniqueFd program, program_file());
  MUSTER_ASSIGN_OR_RETURN(base::FdPair pair, base::make_socketpair(SOCK_STREAM));
  std::vector<std::string> words = {"muster-pmix", std::to_string(kSocket)};
  std::vector<std::string> settings = helper_environment(environment, directory);
  const std::string path = fmt::format("/proc/self/fd/{}", program.get());
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  if (!verbose) ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, pair.second.get(), kSocket);
  HelperProcess helper;
  const int failed = ::posix_spawn(&helper.pid_, path.c_str(), &actions, nullptr, pointers_to(words).data(),
                                   pointers_to(settings).data());
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) {
    helper.pid_ = 0;
    return base::errno_error(failed, "start muster-pmix, which serves Open MPI");
  }
  helper.socket_ = std::move(pair.first);
  return helper;
}

HelperProcess::HelperProcess(HelperProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)), socket_(std::move(other.socket_)) {}

HelperProcess& HelperProcess::operator=(HelperProcess&& other) noexcept {
  if (this == &other) return *this;
  end();
  pid_ = std::exchange(other.pid_, 0);
  socket_ = std::move(other.socket_);
  return *this;
}

void HelperProcess::end() {
  if (pid_ == 0) return;
  ::kill(pid_, SIGKILL);  // ours and not reaped: the number is its
  ::waitpid(std::exchange(pid_, 0), nullptr, 0);
}

std::string HelperProcess::reap() {
  if (pid_ == 0) return "has ended";
  // It may have closed its socket and go on.
  ::kill(pid_, SIGTERM);
  int status = 0;
  ::waitpid(std::exchange(pid_, 0), &status, 0);
  if (WIFSIGNALED(status)) return fmt::format("was ended by signal {}", WTERMSIG(status));
  return fmt::format("ended with exit code {}", WEXITSTATUS(status));
}

}  // namespace muster::agent::pmix
