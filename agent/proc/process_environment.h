// The environment with which a process was started, from /proc/PID/environ. What the program has changed since then is
// not seen.
//
// Thread: any. read_environment() waits for the process's memory lock, so it can block for ever if the process hangs in
// the kernel. Call it in a process of its own.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

namespace muster::agent::inline proc {

class ProcessEnvironment {
 public:
  ProcessEnvironment() = default;
  // `content` has entries NAME=VALUE, each with a zero byte at its end.
  explicit ProcessEnvironment(std::string content) : content_(std::move(content)) {}

  // Returns the value of the first entry with this name. nullopt if there is none.
  std::optional<std::string> get(std::string_view name) const;

 private:
  std::string content_;
};

// Empty if the process has ended, belongs to another user, or has more than 4 MiB of environment.
ProcessEnvironment read_environment(pid_t pid);

}  // namespace muster::agent::proc
