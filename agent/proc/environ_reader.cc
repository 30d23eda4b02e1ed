// The environment scan's child. It runs in a copy of a process that may have threads. Read read_environments() first,
// then scan_process().
// It makes only these system calls, all raw: openat, newfstatat, read, write, close, close_range, getdents64,
// getppid, prctl, exit_group.
#include "agent/proc/environ_reader.h"

#include <fcntl.h>
#include <linux/prctl.h>
#include <sys/stat.h>

#include <csignal>
#include <cstdint>

#include "agent/proc/raw_syscall.h"

namespace muster::agent::inline proc {
namespace {

struct KernelDirent {
  std::uint64_t inode;
  std::int64_t offset;
  std::uint16_t size;
  std::uint8_t type;
  char name[1];
};

constexpr long kOldKernelFds = 4096;  // the range to close on kernels without close_range (before 5.9)
constexpr char kSessionName[] = "MUSTER_SESSION_DIR=";

MUSTER_BARE pid_t parse_pid(const char* name) {
  long pid = 0;
  for (; *name != '\0'; ++name) {
    if (*name < '0' || *name > '9' || pid > 100'000'000) return 0;
    pid = pid * 10 + (*name - '0');
  }
  return static_cast<pid_t>(pid);
}

// Writes "/proc/<pid><file>" into `path`.
MUSTER_BARE void write_path(char* path, const char* pid, const char* file) {
  const char* const parts[] = {"/proc/", pid, file};
  for (const char* part : parts) {
    for (; *part != '\0'; ++part) *path++ = *part;
  }
  *path = '\0';
}

// Returns the length of the entry at `at`, without its NUL.
MUSTER_BARE std::size_t entry_size(const EnvironReaderPlan* plan, std::size_t at, std::size_t end) {
  std::size_t size = 0;
  while (at + size < end && plan->buffer[at + size] != '\0') ++size;
  return size;
}

MUSTER_BARE bool equals(const char* a, const char* b, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) {
    if (a[i] != b[i]) return false;
  }
  return true;
}

// Asks for the process's owner first, which never waits. Opening an environment may wait for the process, whichever
// user owns it.
MUSTER_BARE bool is_ours(const EnvironReaderPlan* plan, const char* pid) {
  char path[64];
  write_path(path, pid, "");
  struct stat info;
  const long result = raw_syscall(SYS_newfstatat, AT_FDCWD, raw_arg(path), raw_arg(&info), 0);
  return result == 0 && info.st_uid == plan->uid;
}

MUSTER_BARE std::size_t read_environ(EnvironReaderPlan* plan, const char* pid) {
  char path[64];
  write_path(path, pid, "/environ");
  const long fd = raw_syscall(SYS_openat, AT_FDCWD, raw_arg(path), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  std::size_t size = 0;
  while (size < plan->buffer_size) {
    const long n = raw_syscall(SYS_read, fd, raw_arg(plan->buffer + size), static_cast<long>(plan->buffer_size - size));
    if (n <= 0) break;
    size += static_cast<std::size_t>(n);
  }
  raw_syscall(SYS_close, fd);
  return size;
}

MUSTER_BARE void write_record(EnvironReaderPlan* plan, ScanRecordKind kind, pid_t pid) {
  plan->record.kind = kind;
  plan->record.pid = pid;
  const long n = raw_syscall(SYS_write, plan->output, raw_arg(&plan->record), sizeof plan->record);
  if (n < 0) {
    while (true) raw_syscall(SYS_exit_group, 1);
  }
}

// Copies `size` bytes and adds a NUL. Copies nothing if they do not fit.
MUSTER_BARE void copy_value(char* to, std::size_t capacity, const char* from, std::size_t size) {
  if (size >= capacity) size = 0;
  for (std::size_t i = 0; i < size; ++i) to[i] = from[i];
  to[size] = '\0';
}

MUSTER_BARE bool is_marker(const EnvironReaderPlan* plan, std::size_t at, std::size_t size) {
  const bool fits = plan->any_value ? size > plan->marker_size : size == plan->marker_size;
  return fits && equals(plan->buffer + at, plan->marker, plan->marker_size);
}

MUSTER_BARE void scan_process(EnvironReaderPlan* plan, const char* name, pid_t pid) {
  if (!is_ours(plan, name)) return;
  *plan->current_pid = pid;
  const std::size_t end = read_environ(plan, name);
  bool is_marked = false;
  plan->record.session_dir[0] = '\0';
  plan->record.job_id[0] = '\0';
  constexpr std::size_t kNameSize = sizeof kSessionName - 1;
  for (std::size_t at = 0; at < end;) {
    const std::size_t size = entry_size(plan, at, end);
    // The first entry with the name counts, as for getenv.
    if (!is_marked && is_marker(plan, at, size)) {
      is_marked = true;
      copy_value(plan->record.job_id, sizeof plan->record.job_id, plan->buffer + at + plan->marker_size,
                 size - plan->marker_size);
    }
    if (size > kNameSize && size - kNameSize < sizeof plan->record.session_dir &&
        equals(plan->buffer + at, kSessionName, kNameSize)) {
      copy_value(plan->record.session_dir, sizeof plan->record.session_dir, plan->buffer + at + kNameSize,
                 size - kNameSize);
    }
    at += size + 1;
  }
  if (is_marked) write_record(plan, ScanRecordKind::kMarked, pid);
  plan->record.session_dir[0] = '\0';
}

// Closes all descriptors but one. The copy must not hold the session's lock.
// It must not hold the read end of its own pipe, either. With that end open, its writes would block for ever after
// its parent was killed.
MUSTER_BARE void close_all_but(long kept) {
  long failed = kept > 0 ? raw_syscall(SYS_close_range, 0, kept - 1, 0) : 0;
  if (failed == 0) failed = raw_syscall(SYS_close_range, kept + 1, ~0U, 0);
  if (failed == 0) return;
  for (long fd = 0; fd < kOldKernelFds; ++fd) {
    if (fd != kept) raw_syscall(SYS_close, fd);
  }
}

}  // namespace

MUSTER_BARE int read_environments(void* argument) {
  auto* plan = static_cast<EnvironReaderPlan*>(argument);
  raw_syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL);
  if (raw_syscall(SYS_getppid) != plan->parent) {
    while (true) raw_syscall(SYS_exit_group, 1);
  }
  close_all_but(plan->output);
  const long directory = raw_syscall(SYS_openat, AT_FDCWD, raw_arg("/proc"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  while (directory >= 0) {
    const long n = raw_syscall(SYS_getdents64, directory, raw_arg(plan->names), static_cast<long>(plan->names_size));
    if (n <= 0) break;
    for (long at = 0; at < n;) {
      const auto* entry = reinterpret_cast<const KernelDirent*>(plan->names + at);
      const pid_t pid = parse_pid(entry->name);
      if (pid > plan->after) scan_process(plan, entry->name, pid);  // /proc lists pids in ascending order
      at += entry->size;
    }
  }
  if (directory >= 0) write_record(plan, ScanRecordKind::kDone, 0);
  while (true) raw_syscall(SYS_exit_group, 0);
}

}  // namespace muster::agent::proc
