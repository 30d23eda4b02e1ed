#include "agent/process/own_process.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "agent/proc/environ_scan.h"
#include "agent/proc/proc_table.h"
#include "base/strings.h"

namespace muster::agent::inline process {

base::Status become_supervisor() {
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) return base::errno_error(errno, "become a subreaper");
  if (::prctl(PR_SET_DUMPABLE, 0) != 0) return base::errno_error(errno, "become not dumpable");
  return base::ok_status();
}

base::Status keep_only_descriptors(const std::vector<int>& kept) {
  const base::UniqueFd null(::open("/dev/null", O_RDWR));
  if (!null.valid()) return base::errno_error(errno, "open /dev/null");
  for (int fd = 0; fd <= 2; ++fd) {
    if (null.get() != fd && ::dup2(null.get(), fd) < 0) return base::errno_error(errno, "replace a standard stream");
  }
  std::vector<int> closing;
  {
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir("/proc/self/fd"), ::closedir);
    if (!directory) return base::errno_error(errno, "list our file descriptors in /proc/self/fd");
    while (const dirent* entry = ::readdir(directory.get())) {
      const auto fd = base::parse_decimal(entry->d_name, 1L << 30);
      if (!fd || *fd <= 2 || *fd == null.get() || *fd == ::dirfd(directory.get())) continue;
      if (std::ranges::find(kept, static_cast<int>(*fd)) == kept.end()) closing.push_back(static_cast<int>(*fd));
    }
  }
  for (const int fd : closing) ::close(fd);
  return base::ok_status();
}

pid_t own_pid_in(int proc_fd) {
  char target[32] = {};
  const ssize_t n = ::readlinkat(proc_fd, "self", target, sizeof target - 1);
  const auto pid = n > 0 ? base::parse_decimal({target, static_cast<std::size_t>(n)}, 1L << 30) : std::nullopt;
  return pid ? static_cast<pid_t>(*pid) : ::getpid();
}

void audit(const std::string& job_id, const std::string& session_path, pid_t agent_pid, JobEmpty& empty) {
  std::vector<pid_t> spare = ancestors(::getpid());
  const std::vector<pid_t> of_agent = ancestors(agent_pid);
  spare.insert(spare.end(), of_agent.begin(), of_agent.end());
  auto report = kill_marked(job_id, session_path, spare);
  if (!report.ok()) {
    empty.stuck.push_back({0, fmt::format("(no audit: {})", report.status().message()), '?', ""});
    return;
  }
  for (ProcessInfo& info : report->killed) empty.killed.push_back({info.pid, std::move(info.command), "environment"});
  for (const pid_t pid : report->unreadable) {
    // These unreadable processes may belong to the job. On a loaded host a process of another job may be unreadable,
    // too. So report only processes that hang in the kernel.
    const auto info = read_process(pid);
    if (info && info->state == 'D') empty.stuck.push_back({pid, info->command, info->state, wait_channel(pid)});
  }
}

}  // namespace muster::agent::process
