// A child process that a test looks at from outside. It stays where it is until the object ends.
#pragma once

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <string>

#include "base/file.h"
#include "base/unique_fd.h"

namespace muster::testing_support {

class StandingChild {
 public:
  // `body` gets the write end of a pipe, and must not return. The child is ready when `marks` bytes have come.
  template <typename Body>
  StandingChild(std::size_t marks, Body body) {
    auto pipe = base::make_pipe();
    if (!pipe.ok()) return;
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
      body(pipe->second.get());
      ::_exit(127);
    }
    pipe->second.reset();
    std::string come(marks, '\0');
    const auto got = base::read_exactly_blocking(pipe->first.get(), come.data(), come.size());
    is_ready_ = got.ok() && *got;
  }
  StandingChild(const StandingChild&) = delete;
  StandingChild& operator=(const StandingChild&) = delete;
  ~StandingChild() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  pid_t pid() const { return pid_; }
  bool is_ready() const { return is_ready_; }

 private:
  pid_t pid_ = 0;
  bool is_ready_ = false;
};

// Runs a Python program. `arguments` follow the interpreter's path. The program prints "up" when it is ready.
class StandingPython : public StandingChild {
 public:
  template <typename... Arguments>
  explicit StandingPython(const std::string& python, const Arguments&... arguments)
      : StandingChild(3, [&](int output) {
          ::dup2(output, STDOUT_FILENO);
          ::execl(python.c_str(), "python3", arguments..., nullptr);
        }) {}
};

}  // namespace muster::testing_support
