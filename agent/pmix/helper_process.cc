#include "agent/pmix/helper_process.h"

#include <sys/wait.h>

#include <csignal>
#include <utility>

#include "agent/pmix/helper_program.h"
#include "agent/process/carried_program.h"
#include "base/strings.h"

namespace muster::agent::pmix {
namespace {

// Returns the variables that libpmix must read. Leaves out everything that an outer launcher set for libpmix.
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

}  // namespace

base::Result<HelperProcess> HelperProcess::start(const std::vector<std::string>& environment,
                                                 const std::string& directory, bool verbose) {
  if (helper_program().empty()) {
    return base::unimplemented(
        "this build of Muster cannot serve Open MPI: it was made without libpmix's headers (libpmix-dev)");
  }
  MUSTER_ASSIGN_OR_RETURN(CarriedChild child, start_carried({.name = "muster-pmix",
                                                             .bytes = helper_program(),
                                                             .environment = helper_environment(environment, directory),
                                                             .keeps_stderr = verbose}));
  HelperProcess helper;
  helper.pid_ = child.pid;
  helper.socket_ = std::move(child.socket);
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
  ::kill(pid_, SIGKILL);  // no other process can have its pid, because it is our unreaped child
  ::waitpid(std::exchange(pid_, 0), nullptr, 0);
}

std::string HelperProcess::reap() {
  if (pid_ == 0) return "has ended";
  // The helper may still run. Use SIGKILL, because SIGTERM waits while a process is stopped.
  ::kill(pid_, SIGKILL);
  int status = 0;
  ::waitpid(std::exchange(pid_, 0), &status, 0);
  if (WIFSIGNALED(status)) return fmt::format("was ended by signal {}", WTERMSIG(status));
  return fmt::format("ended with exit code {}", WEXITSTATUS(status));
}

}  // namespace muster::agent::pmix
