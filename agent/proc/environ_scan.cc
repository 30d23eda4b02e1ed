// The parent's side of the environment scan; environ_reader.cc is the child's side.
// Read scan_for() and follow_child() first, then kill_marked().

#include "agent/proc/environ_scan.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "agent/proc/bare_clone.h"
#include "agent/proc/environ_reader.h"
#include "agent/proc/session_dir.h"
#include "base/ids.h"

namespace muster::agent::inline proc {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kEnvironBytes = 8u << 20;  // more than execve accepts by default
constexpr std::size_t kNameBytes = 32u << 10;
constexpr int kKillRounds = 10;
constexpr std::string_view kMarker = "MUSTER_JOB_ID=";

// Memory for the child. Untouched pages cost nothing, so it may be large.
class ScanBuffer {
 public:
  ScanBuffer()
      : shared_(::mmap(nullptr, sizeof(pid_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)),
        data_(::mmap(nullptr, kEnvironBytes + kNameBytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {}
  ~ScanBuffer() {
    if (data_ != MAP_FAILED) ::munmap(data_, kEnvironBytes + kNameBytes);
    if (shared_ != MAP_FAILED) ::munmap(shared_, sizeof(pid_t));
  }
  ScanBuffer(const ScanBuffer&) = delete;
  ScanBuffer& operator=(const ScanBuffer&) = delete;
  bool valid() const { return data_ != MAP_FAILED && shared_ != MAP_FAILED; }
  volatile pid_t* current_pid() const { return static_cast<pid_t*>(shared_); }
  char* environ_part() const { return static_cast<char*>(data_); }
  char* name_part() const { return static_cast<char*>(data_) + kEnvironBytes; }

 private:
  void* shared_;
  void* data_;
};

enum class ReadEnd { kDone, kStuck, kOutOfTime, kFailed };

// Reads the records of one child, until the child has finished or exceeds a limit.
ReadEnd follow_child(int fd, pid_t child, const volatile pid_t* current_pid, const ScanLimits& limits,
                     Clock::time_point deadline, EnvironScan& scan) {
  pid_t last_seen = *current_pid;
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) return ReadEnd::kOutOfTime;
    pollfd wanted{fd, POLLIN, 0};
    const int ready = ::poll(&wanted, 1, static_cast<int>(std::min(left, limits.per_process).count()));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) {
      const pid_t now_at = *current_pid;
      // A child that is ready to run is not stuck. It only has no processor at the moment.
      const auto info = read_process(child);
      const bool waits = !info || info->state != 'R';
      if (now_at == last_seen && waits) return left <= limits.per_process ? ReadEnd::kOutOfTime : ReadEnd::kStuck;
      last_seen = now_at;
      continue;
    }
    ScanRecord record;
    const auto whole = base::read_exactly_blocking(fd, &record, sizeof record);
    if (!whole.ok() || !*whole) return ReadEnd::kFailed;
    if (record.kind == ScanRecordKind::kDone) return ReadEnd::kDone;
    auto info = read_process(record.pid);
    if (info && !info->is_dead() && is_of_user(record.pid, ::getuid())) {
      scan.found.push_back({std::move(*info), record.job_id, record.session_dir});
    }
  }
}

void end_child(const BareChild& child) {
  ::kill(child.pid, SIGKILL);  // no other process can have its pid, because it is our unreaped child
  // If the child hangs in the kernel, leave it to the process that later reaps our children. It holds nothing but a
  // copy of our memory.
  for (int attempt = 0; attempt < 50; ++attempt) {
    if (::waitpid(child.pid, nullptr, WNOHANG) != 0) return;
    ::poll(nullptr, 0, 1);
  }
}

bool is_other_living_session(const MarkedProcess& process, const std::string& own_session) {
  return process.session_dir != own_session && may_be_living_session(process.session_dir, process.job_id);
}

base::Result<EnvironScan> scan_for(const std::string& marker, bool any_value, const ScanLimits& limits) {
  const ScanBuffer buffer;
  if (!buffer.valid()) return base::errno_error(errno, "map a buffer for the scan");
  EnvironScan scan;
  EnvironReaderPlan plan;
  plan.current_pid = buffer.current_pid();
  plan.uid = ::geteuid();
  plan.parent = ::getpid();
  plan.marker = marker.data();
  plan.marker_size = marker.size();
  plan.any_value = any_value;
  plan.buffer = buffer.environ_part();
  plan.buffer_size = kEnvironBytes;
  plan.names = buffer.name_part();
  plan.names_size = kNameBytes;
  const auto deadline = Clock::now() + limits.total;
  while (true) {
    MUSTER_ASSIGN_OR_RETURN(base::FdPair pipe, base::make_pipe());
    plan.output = pipe.second.get();
    MUSTER_ASSIGN_OR_RETURN(const BareChild child, fork_bare(read_environments, &plan));
    pipe.second.reset();
    const ReadEnd end = follow_child(pipe.first.get(), child.pid, plan.current_pid, limits, deadline, scan);
    end_child(child);
    if (end == ReadEnd::kDone) return scan;
    const pid_t hangs_at = *plan.current_pid;
    if (end == ReadEnd::kFailed && hangs_at <= plan.after) {
      return base::unavailable("cannot read /proc");
    }
    if (hangs_at > plan.after && is_of_user(hangs_at, ::getuid())) scan.unreadable.push_back(hangs_at);
    plan.after = hangs_at;
    if (end == ReadEnd::kOutOfTime) {
      scan.is_complete = false;
      return scan;
    }
  }
}

}  // namespace

base::Result<EnvironScan> scan_environments(const std::string& job_id, const ScanLimits& limits) {
  MUSTER_ASSIGN_OR_RETURN(EnvironScan scan, scan_for(std::string(kMarker) + job_id, false, limits));
  for (MarkedProcess& process : scan.found) process.job_id = job_id;
  return scan;
}

base::Result<EnvironScan> scan_all_jobs(const ScanLimits& limits) {
  MUSTER_ASSIGN_OR_RETURN(EnvironScan scan, scan_for(std::string(kMarker), true, limits));
  std::erase_if(scan.found, [](const MarkedProcess& process) { return !base::JobId::parse(process.job_id).ok(); });
  return scan;
}

base::Result<MarkedKill> kill_marked(const std::string& job_id, const std::string& own_session,
                                     const std::vector<pid_t>& spare) {
  MarkedKill report;
  for (int round = 0; round < kKillRounds; ++round) {
    MUSTER_ASSIGN_OR_RETURN(EnvironScan first, scan_environments(job_id));
    report.unreadable = first.unreadable;
    std::erase_if(first.found, [&](const MarkedProcess& process) {
      return std::ranges::find(spare, process.info.pid) != spare.end() || is_other_living_session(process, own_session);
    });
    if (first.found.empty()) return report;
    std::vector<base::UniqueFd> pidfds;
    for (const MarkedProcess& process : first.found) pidfds.push_back(open_pidfd(process.info.pid));
    MUSTER_ASSIGN_OR_RETURN(const EnvironScan second, scan_environments(job_id));
    for (std::size_t i = 0; i < first.found.size(); ++i) {
      const ProcessInfo& info = first.found[i].info;
      const bool is_confirmed = std::ranges::any_of(second.found, [&info](const MarkedProcess& again) {
        return again.info.pid == info.pid && again.info.start_time == info.start_time;
      });
      if (!is_confirmed) continue;
      const bool is_hit = pidfds[i].valid() ? send_by_pidfd(pidfds[i].get(), SIGKILL) : signal_process(info, SIGKILL);
      const bool is_new = std::ranges::find(report.killed, info.pid, &ProcessInfo::pid) == report.killed.end();
      if (is_hit && is_new) report.killed.push_back(info);
    }
  }
  return report;
}

}  // namespace muster::agent::proc
