#include "agent/commands/cleanup_report.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

#include "base/build_id.h"
#include "base/ids.h"
#include "base/strings.h"
#include "base/unique_fd.h"
#include "proto/frame.h"

namespace muster::agent::inline commands {
namespace {

// Leaves room for the rest of the report, because a bootstrap keeps only 1 MiB of output.
constexpr std::size_t kMaxRemainsBytes = 640u << 10;
constexpr std::size_t kMaxJobs = 5000;
constexpr std::size_t kMaxProblems = 50;
constexpr std::size_t kMaxSentence = 1000;
constexpr std::size_t kMaxJobPrefix = 8;

std::string sentence(const std::string& text) {
  return base::valid_utf8(text.substr(0, kMaxSentence));
}

v1::RemainsKind kind_of(RemainsKind kind) {
  switch (kind) {
    case RemainsKind::kProcess:
      return v1::REMAINS_KIND_PROCESS;
    case RemainsKind::kSession:
      return v1::REMAINS_KIND_SESSION;
    case RemainsKind::kSocket:
      return v1::REMAINS_KIND_SOCKET;
    case RemainsKind::kCgroup:
      return v1::REMAINS_KIND_CGROUP;
    case RemainsKind::kSharedMemory:
      return v1::REMAINS_KIND_SHARED_MEMORY;
  }
  return v1::REMAINS_KIND_UNSPECIFIED;
}

v1::RemainsState state_of(RemainsState state) {
  switch (state) {
    case RemainsState::kFound:
      return v1::REMAINS_STATE_FOUND;
    case RemainsState::kGone:
      return v1::REMAINS_STATE_GONE;
    case RemainsState::kLeft:
      return v1::REMAINS_STATE_LEFT;
  }
  return v1::REMAINS_STATE_UNSPECIFIED;
}

v1::Remains remains_of(const Remains& from) {
  v1::Remains remains;
  remains.set_job_id(from.job_id);
  remains.set_kind(kind_of(from.kind));
  remains.set_state(state_of(from.state));
  remains.set_pid(from.pid);
  remains.set_name(base::valid_utf8(from.name));
  remains.set_age_s(from.age.count());
  remains.set_found_by(from.found_by);
  remains.set_problem(sentence(from.problem));
  return remains;
}

bool is_job_prefix(const std::string& text) {
  return !text.empty() && text.size() <= kMaxJobPrefix &&
         text.find_first_not_of("abcdefghijklmnopqrstuvwxyz234567") == std::string::npos;
}

}  // namespace

base::Result<CleanupOptions> parse_cleanup(const std::vector<std::string>& arguments) {
  CleanupOptions options;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& name = arguments[i];
    if (name == "--dry-run") {
      options.dry_run = true;
    } else if (name == "--job" && i + 1 < arguments.size()) {
      options.scan.job_prefix = arguments[++i];
      if (!is_job_prefix(options.scan.job_prefix)) {
        return base::invalid_argument("'{}' is not the prefix of a job id", base::printable(options.scan.job_prefix));
      }
    } else if (name == "--session-root" && i + 1 < arguments.size()) {
      options.scan.session_root = arguments[++i];
    } else {
      return base::invalid_argument("--cleanup: unknown argument '{}'", base::printable(name));
    }
  }
  if (!options.dry_run && !options.scan.job_prefix.empty()) {
    MUSTER_RETURN_IF_ERROR(base::JobId::parse(options.scan.job_prefix).status());
  }
  return options;
}

v1::CleanupReport to_message(const CleanupReport& report) {
  v1::CleanupReport message;
  // Put what is still left first, so that it is the last to be cut.
  std::vector<const Remains*> ordered;
  for (const Remains& remains : report.remains) ordered.push_back(&remains);
  std::stable_partition(ordered.begin(), ordered.end(),
                        [](const Remains* remains) { return remains->state == RemainsState::kLeft; });
  std::size_t bytes = 0;
  for (const Remains* from : ordered) {
    v1::Remains remains = remains_of(*from);
    bytes += remains.ByteSizeLong() + sizeof(std::uint64_t);
    if (bytes <= kMaxRemainsBytes) {
      *message.add_remains() = std::move(remains);
      continue;
    }
    message.set_left_out(message.left_out() + 1);
    if (from->state != RemainsState::kGone) message.set_left_out_not_gone(message.left_out_not_gone() + 1);
  }
  for (const std::string& job : report.alive_jobs) {
    if (static_cast<std::size_t>(message.alive_jobs_size()) < kMaxJobs) message.add_alive_jobs(job);
  }
  for (const WaitingJob& job : report.waiting_jobs) {
    if (static_cast<std::size_t>(message.waiting_jobs_size()) >= kMaxJobs) break;
    v1::WaitingJob& waiting = *message.add_waiting_jobs();
    waiting.set_job_id(job.job_id);
    waiting.set_lease_left_ms(job.lease_left.count());
  }
  for (const std::string& problem : report.problems) {
    if (static_cast<std::size_t>(message.problems_size()) < kMaxProblems) message.add_problems(sentence(problem));
  }
  return message;
}

base::Status report_cleanup(const std::vector<std::string>& arguments) {
  ::signal(SIGPIPE, SIG_IGN);
  MUSTER_ASSIGN_OR_RETURN(const CleanupOptions options, parse_cleanup(arguments));
  MUSTER_ASSIGN_OR_RETURN(const CleanupReport report, clean_up(options));
  MUSTER_ASSIGN_OR_RETURN(const std::string frame, proto::frame_message(to_message(report)));
  const std::string answer = fmt::format("MUSTER-AGENT 1 {}\n{}", base::build_id(), frame);
  return base::write_all_blocking(STDOUT_FILENO, answer.data(), answer.size());
}

}  // namespace muster::agent::commands
