// For tests: holds a process so that only SIGKILL ends it, as if it hung in the kernel.
#pragma once

#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/wait.h>

#include <chrono>
#include <future>
#include <thread>

namespace muster::agent::testing {

// Only root may do this to an agent's child. The process goes on when this object is destroyed.
class Debugger {
 public:
  explicit Debugger(pid_t pid) {
    std::promise<bool> is_held;
    thread_ = std::thread([this, pid, &is_held] {  // the thread that traces must also wait
      int status = 0;
      const bool is_stopped = ::ptrace(PTRACE_SEIZE, pid, nullptr, nullptr) == 0 &&
                              ::ptrace(PTRACE_INTERRUPT, pid, nullptr, nullptr) == 0 &&
                              ::waitpid(pid, &status, __WALL) == pid;
      is_held.set_value(is_stopped);
      if (!is_stopped) return;
      auto released = released_.get_future();
      while (released.wait_for(std::chrono::milliseconds(10)) == std::future_status::timeout) {
        const bool has_changed = ::waitpid(pid, &status, __WALL | WNOHANG) == pid;
        if (has_changed && (WIFEXITED(status) || WIFSIGNALED(status))) return;  // now its parent can reap it
      }
      ::ptrace(PTRACE_DETACH, pid, nullptr, nullptr);
    });
    is_held_ = is_held.get_future().get();
  }
  ~Debugger() {
    released_.set_value();
    thread_.join();
  }
  Debugger(const Debugger&) = delete;
  Debugger& operator=(const Debugger&) = delete;

  bool is_held() const { return is_held_; }

 private:
  std::promise<void> released_;
  bool is_held_ = false;
  std::thread thread_;
};

}  // namespace muster::agent::testing
