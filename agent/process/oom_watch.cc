#include "agent/process/oom_watch.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>

namespace muster::agent {

OomWatch::OomWatch(const Cgroup* cgroup)
    : cgroup_(cgroup), log_(::open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {
  if (cgroup_ != nullptr) counted_ = cgroup_->oom_kills().value_or(0);
  if (log_.valid()) ::lseek(log_.get(), 0, SEEK_END);
}

bool OomWatch::was_killed(pid_t pid) {
  if (cgroup_ != nullptr) {
    if (const auto count = cgroup_->oom_kills()) {
      if (*count <= counted_) return false;
      ++counted_;
      return true;
    }
  }
  read_log();
  return killed_.erase(pid) > 0;
}

void OomWatch::read_log() {
  if (!log_.valid()) return;
  char line[8192];
  while (true) {
    const ssize_t n = ::read(log_.get(), line, sizeof line);
    if (n < 0 && (errno == EPIPE || errno == EINTR)) continue;  // EPIPE: records were overwritten before we read them
    if (n <= 0) return;
    const pid_t pid = pid_in_oom_line(std::string_view(line, static_cast<std::size_t>(n)));
    if (pid > 0) killed_.insert(pid);
  }
}

pid_t pid_in_oom_line(std::string_view line) {
  constexpr std::string_view kPhrase = "Killed process ";
  if (line.find("emory") == std::string_view::npos) return 0;  // "Out of memory", "Memory cgroup out of memory"
  const std::size_t at = line.find(kPhrase);
  if (at == std::string_view::npos) return 0;
  pid_t pid = 0;
  const std::string_view rest = line.substr(at + kPhrase.size());
  std::from_chars(rest.data(), rest.data() + rest.size(), pid);
  return pid;
}

}  // namespace muster::agent
