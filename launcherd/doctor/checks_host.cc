// The checks of what the host permits: limits, free space, kernel, containment, and logind's actions at log-out.
// Read the two tables (kLimits, kSpaces) first, then the checks in any order.
#include <algorithm>
#include <array>

#include "base/strings.h"
#include "launcherd/doctor/checks.h"

namespace muster::launcherd::inline doctor {
namespace {

using model::Check;
using model::CheckState;

constexpr std::int64_t kMiB = 1 << 20;
constexpr std::int64_t kGiB = 1 << 30;

// Agents and ranks raise soft limits to hard limits, so the hard limits count.
struct LimitRow {
  std::string_view name;
  std::string_view shown;
  std::int64_t fail_below;
  std::int64_t warn_below;
  std::string_view why;
  std::string_view advice;
};

constexpr auto kLimits = std::to_array<LimitRow>({
    // A rank needs one connection per peer and some files. A thousand descriptors suffice only for small jobs, and a
    // hundred for none.
    {"nofile", "NOFILE", 128, 4096, "sockets and files of a rank",
     "raise the hard limit: '* hard nofile 65536' in /etc/security/limits.conf, then log in again (also search the "
     "shell's start-up files for ulimit)"},
    // InfiniBand and NCCL lock the memory from which they send.
    {"memlock", "MEMLOCK", 0, 64 * kMiB, "memory that InfiniBand and NCCL lock",
     "raise the hard limit: '* hard memlock unlimited' in /etc/security/limits.conf, and LimitMEMLOCK=infinity for "
     "sshd"},
    // An agent has about a dozen threads. A rank of torch has some hundreds.
    {"nproc", "NPROC", 64, 4096, "processes and threads of this user",
     "raise the hard limit: '* hard nproc 65536' in /etc/security/limits.conf or limits.d/*-nproc.conf"},
    {"pids", "pids", 64, 4096, "processes and threads of the cgroup",
     "raise it: TasksMax= of the user's slice (systemctl edit user-.slice), or ask the scheduler for more"},
});

std::string limit_number(std::string_view name, std::int64_t value) {
  if (value < 0) return "unlimited";
  if (name == "memlock") return fmt::format("{} KiB", value / 1024);
  return fmt::format("{}", value);
}

std::string size_of(std::int64_t bytes) {
  if (bytes >= 10 * kGiB) return fmt::format("{} GiB", bytes / kGiB);
  if (bytes >= kGiB) return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / static_cast<double>(kGiB));
  return fmt::format("{} MiB", bytes / kMiB);
}

struct SpaceRow {
  std::string_view purpose;
  std::string_view shown;
  std::int64_t fail_below;
  std::int64_t warn_below;
  std::string_view advice;
};

constexpr auto kSpaces = std::to_array<SpaceRow>({
    // Holds locks, sockets, notes and spooled output of jobs.
    {"session", "disk", kMiB, 256 * kMiB, "free some space, or choose another directory with MUSTER_TMPDIR"},
    // Holds the agent (14 MB). The agent may be there already, or --agent-dir may choose another folder.
    {"home", "home", 0, 32 * kMiB, "free some space for the agent, or choose another directory with --agent-dir"},
    // torch's DataLoader and NCCL exchange data through this file system.
    {"shm", "/dev/shm", kMiB, 512 * kMiB,
     "free some space (ls -l /dev/shm), or mount it larger: mount -o remount,size=50% /dev/shm (docker run "
     "--shm-size)"},
});

// Returns {4, 18} for "4.18.0-372.el8".
std::optional<std::pair<long, long>> kernel_version(std::string_view release) {
  const auto parts = base::split(release.substr(0, release.find_first_not_of("0123456789.")), '.');
  if (parts.size() < 2) return std::nullopt;
  const auto major = base::parse_decimal(parts[0], 1000);
  const auto minor = base::parse_decimal(parts[1], 10'000);
  if (!major || !minor) return std::nullopt;
  return std::pair(*major, *minor);
}

bool is_true(std::string_view word) {
  constexpr auto kTrue = std::to_array<std::string_view>({"yes", "true", "on", "1", "y", "t"});
  std::string lower(word);
  std::ranges::transform(lower, lower.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return std::ranges::find(kTrue, lower) != kTrue.end();
}

}  // namespace

bool locks_memory(const v1::HostFacts& facts) {
  const bool has_infiniband =
      std::ranges::any_of(facts.nics(), [](const v1::NicFact& nic) { return nic.kind() == "infiniband"; });
  return has_infiniband || facts.hello().gpus_size() > 0;
}

Check check_limit(const v1::LimitFact& limit, bool locks_memory) {
  const auto* const row = std::ranges::find(kLimits, limit.name(), &LimitRow::name);
  if (row == kLimits.end()) return {limit.name(), CheckState::kOk, limit_number("", limit.hard()), ""};
  Check check{.name = fmt::format("limit {}", row->shown)};
  const bool is_one = limit.soft() == limit.hard();
  check.seen = is_one ? limit_number(row->name, limit.hard())
                      : fmt::format("{}, raised to {} for ranks", limit_number(row->name, limit.soft()),
                                    limit_number(row->name, limit.hard()));
  // The agent does not raise this limit, so the soft limit counts.
  if (limit.name() == "nproc" && !is_one) {
    check.seen = fmt::format("{} (hard {})", limit_number(row->name, limit.soft()), limit_number("", limit.hard()));
  }
  const std::int64_t counts = limit.name() == "nproc" ? limit.soft() : limit.hard();
  if (counts < 0 || counts >= row->warn_below || (limit.name() == "memlock" && !locks_memory)) return check;
  check.state = counts < row->fail_below ? CheckState::kFail : CheckState::kWarn;
  check.seen += fmt::format(", low for {}", row->why);
  check.advice = row->advice;
  return check;
}

Check check_threads(const v1::HostFacts& facts) {
  if (facts.thread_failure().empty()) return {"threads", CheckState::kOk, "an agent can start its threads", ""};
  return {"threads", CheckState::kFail, facts.thread_failure(),
          "end other processes of this user there, or raise the limits NPROC and pids"};
}

Check check_space(const v1::SpaceFact& space) {
  const auto* const row = std::ranges::find(kSpaces, space.purpose(), &SpaceRow::purpose);
  const bool is_known = row != kSpaces.end();
  Check check{.name = is_known ? std::string(row->shown) : space.purpose()};
  const bool is_home = space.purpose() == "home";
  const auto bad = [&](CheckState state, const std::string& what, std::string_view advice) {
    check.state = state;
    check.seen += what;
    check.advice = advice;
    return check;
  };
  // The host answered, so the agent is stored already. The home folder is then no longer needed.
  const CheckState worst = is_home ? CheckState::kWarn : CheckState::kFail;
  if (!space.failure().empty()) {
    return bad(worst, space.failure(), is_home ? "create the home directory of this user" : "create this directory");
  }
  check.seen = fmt::format("{} free of {} in {}{}{}", size_of(space.free_bytes()), size_of(space.total_bytes()),
                           space.path(), space.file_system().empty() ? "" : ", ", space.file_system());
  const std::string_view elsewhere = space.purpose() == "session" ? "choose another directory with MUSTER_TMPDIR"
                                                                  : "ask its owner to give this user access";
  if (space.read_only()) return bad(worst, ", read-only", elsewhere);
  if (!space.writable()) return bad(worst, ", this user may not write there", elsewhere);
  if (space.free_files() >= 0 && space.free_files() < 100) {
    return bad(CheckState::kWarn, fmt::format(", {} inodes left", space.free_files()), "remove files there");
  }
  if (!is_known || space.free_bytes() >= row->warn_below) return check;
  return bad(space.free_bytes() < row->fail_below ? CheckState::kFail : CheckState::kWarn, "", row->advice);
}

Check check_kernel(const std::string& release) {
  constexpr std::pair<long, long> kOldest{4, 18};
  const auto version = kernel_version(release);
  if (!version)
    return {"kernel", CheckState::kWarn, fmt::format("unknown release '{}'", release), "Linux 4.18 is needed"};
  if (*version >= kOldest) return {"kernel", CheckState::kOk, release, ""};
  return {"kernel", CheckState::kFail, release, "update it: Muster needs Linux 4.18"};
}

Check check_containment(const v1::HostFacts& facts) {
  if (!facts.containment_failure().empty()) {
    return {"containment", CheckState::kFail, facts.containment_failure(),
            "no job can start there; use --contain auto for a level that the host allows, or MUSTER_TMPDIR for another "
            "directory"};
  }
  const std::string& level = facts.hello().containment();
  const std::string& note = facts.hello().containment_note();
  Check check{"containment", CheckState::kOk, level, ""};
  if (!note.empty()) check.seen += fmt::format(" ({})", note);
  if (level != "subreaper") return check;
  check.state = CheckState::kWarn;
  check.advice =
      "processes that leave their session and clear their environment may outlive a job: delegate a cgroup "
      "(Delegate=yes for user@.service), or use --contain pidns";
  return check;
}

Check check_logind(const v1::LogindFact& logind, const std::string& user) {
  if (!logind.is_running()) return {"logind", CheckState::kOk, "no systemd", ""};
  const auto shown = [](const std::string& value) { return value.empty() ? std::string("default") : value; };
  Check check{"logind", CheckState::kOk,
              fmt::format("KillUserProcesses={} RemoveIPC={} linger={}", shown(logind.kill_user_processes()),
                          shown(logind.remove_ipc()), logind.lingers() ? "yes" : "no"),
              ""};
  if (!is_true(logind.kill_user_processes()) || logind.lingers()) return check;
  check.state = CheckState::kWarn;
  check.advice = fmt::format(
      "systemd kills processes at log-out, also jobs that lost their launcher: run loginctl enable-linger {}, or set "
      "KillUserProcesses=no in /etc/systemd/logind.conf",
      user.empty() ? "USER" : user);
  return check;
}

}  // namespace muster::launcherd::doctor
