#include "bench/guarded_run.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace muster::bench {
namespace {

[[noreturn]] void do_work(const std::function<int(const std::string&)>& work, const std::string& directory,
                          pid_t guard) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != guard) ::_exit(1);  // it has died meanwhile
  const int code = work(directory);
  std::fflush(stdout);
  ::_exit(code);  // threads of libraries need not be waited for
}

// Returns the exit code.
int wait_for(pid_t worker, const sigset_t& awaited) {
  int status = 0;
  int signal = 0;
  while (::waitpid(worker, &status, WNOHANG) == 0) {
    if (::sigwait(&awaited, &signal) != 0 || signal == SIGCHLD) continue;
    ::kill(worker, SIGKILL);
    ::waitpid(worker, nullptr, 0);
    return 128 + signal;
  }
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  std::fprintf(stderr, "the benchmark was ended by signal %d\n", WTERMSIG(status));
  return 128 + WTERMSIG(status);
}

void remove(const std::string& directory) {
  std::error_code failed;
  std::filesystem::remove_all(directory, failed);
  if (failed) std::fprintf(stderr, "%s is left: %s\n", directory.c_str(), failed.message().c_str());
}

}  // namespace

int run_guarded(const std::string& name, const std::function<int(const std::string& directory)>& work) {
  std::string directory = "/tmp/" + name + "-XXXXXX";
  if (::mkdtemp(directory.data()) == nullptr) {
    std::fprintf(stderr, "make a directory in /tmp: %s\n", std::strerror(errno));
    return 1;
  }
  sigset_t awaited;
  sigset_t before;
  ::sigemptyset(&awaited);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) ::sigaddset(&awaited, signal);
  ::signal(SIGCHLD, SIG_DFL);  // ignored, it would not be awaited
  ::sigprocmask(SIG_BLOCK, &awaited, &before);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // what the worker leaves becomes a child of this process
  const pid_t guard = ::getpid();
  const pid_t worker = ::fork();
  if (worker == 0) {
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    do_work(work, directory, guard);
  }
  int code = 1;
  if (worker > 0) {
    code = wait_for(worker, awaited);
    while (::waitpid(-1, nullptr, 0) > 0) {
    }  // nobody writes into the directory any more
  } else {
    std::fprintf(stderr, "start the benchmark: %s\n", std::strerror(errno));
  }
  remove(directory);
  return code;
}

}  // namespace muster::bench
