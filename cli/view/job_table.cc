// This file formats jobs as a table, one job with its hosts and ranks, and single events.
// Read the public functions at the end first: format_jobs(), format_status(), format_event().
#include "cli/view/job_table.h"

#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "base/strings.h"
#include "cli/view/array_table.h"
#include "cli/view/load_table.h"
#include "cli/view/local_time.h"
#include "cli/view/log_output.h"
#include "cli/view/report.h"
#include "model/exit_code.h"
#include "model/exit_report.h"
#include "proto/convert.h"

namespace muster::cli::inline view {
namespace {

constexpr std::size_t kMaxCommand = 60;
constexpr std::size_t kMaxName = 24;
constexpr std::string_view kNameHeading = "name";

std::string shortened(const std::string& text, std::size_t limit) {
  return text.size() <= limit ? text : base::valid_utf8(text.substr(0, limit)) + "…";
}

// Counts the characters of UTF-8 text.
std::size_t columns_of(const std::string& text) {
  const auto begins = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; };
  return static_cast<std::size_t>(std::ranges::count_if(text, begins));
}

std::string command_of(const v1::Job& job, std::size_t limit) {
  std::string text;
  for (const std::string& word : job.command()) text += (text.empty() ? "" : " ") + base::shell_quote(word);
  return shortened(base::printable(text), limit);
}

std::string shown_name(const v1::Job& job) {
  return job.name().empty() ? "-" : shortened(base::printable(job.name()), kMaxName);
}

int hosts_up(const v1::Job& job) {
  return static_cast<int>(std::ranges::count_if(job.hosts(), [](const v1::HostStatus& host) { return host.up(); }));
}

// Returns the time from the job's start, or from its submission if it has not started, to its end or to `now`.
std::string age_of(const v1::Job& job, base::WallTime now) {
  const base::WallTime from = wall_time_of(job.has_started() ? job.started() : job.submitted());
  const base::WallTime to = job.has_ended() ? wall_time_of(job.ended()) : now;
  return format_duration(std::chrono::duration_cast<base::Duration>(std::max(to, from) - from));
}

std::string hosts_of(const v1::Job& job) {
  if (job.hosts().empty()) return "-";
  return job.has_ended() ? fmt::format("{}", job.hosts_size()) : fmt::format("{}/{}", hosts_up(job), job.hosts_size());
}

// Returns the state's name, or "HELD". For a job that ended with a code other than 0, also the code.
std::string state_of(const v1::Job& job) {
  if (job.held()) return "HELD";
  const std::string name = state_name(job.state());
  return job.has_exit_code() && job.exit_code() != 0 ? fmt::format("{} {}", name, job.exit_code()) : name;
}

std::string host_state(const v1::Job& job, const v1::HostStatus& host) {
  if (job.has_ended()) return "ended";
  if (host.suspect()) return "does not answer";
  return host.up() ? "up" : "waiting";
}

std::string role_name(const v1::Job& job, int rank) {
  for (const v1::RoleRanks& role : job.roles()) {
    if (rank >= role.first() && rank - role.first() < role.count()) return base::printable(role.name());
  }
  return "-";
}

std::string rank_state(const v1::RankStatus& rank) {
  switch (rank.state()) {
    case v1::RANK_STATE_RUNNING:
      return "running";
    case v1::RANK_STATE_ENDED:
      return base::printable(model::describe(proto::rank_end_of(rank.end())));
    default:
      return "waiting";
  }
}

// Returns the numbers of GPUs, and of tiles as "3.1". It returns names if the numbers are not known.
std::string gpus_of(const v1::RankStatus& rank) {
  const v1::RankBinding& binding = rank.binding();
  const bool has_numbers = binding.gpus_size() == binding.devices_size();
  std::vector<std::string> gpus;
  for (int i = 0; i < binding.devices_size(); ++i) {
    const std::string& id = binding.devices(i);
    const std::size_t colon = id.find(':');
    if (colon != std::string::npos) {
      gpus.push_back(base::printable(id.substr(colon + 1)));
    } else {
      gpus.push_back(has_numbers && !id.starts_with("MIG-") ? fmt::format("{}", binding.gpus(i)) : base::printable(id));
    }
  }
  return gpus.empty() ? "-" : base::join(gpus, ",");
}

std::string cores_of(const v1::RankStatus& rank) {
  if (!rank.has_binding()) return "-";
  return rank.binding().cpus().empty() ? "all" : base::printable(rank.binding().cpus());
}

// A column of the table. It returns its text for a job, or its heading for nullptr.
using Column = std::function<std::string(const v1::Job*)>;

// Returns the column of users.
Column user_column(const std::vector<v1::Job>& jobs) {
  const auto shown = [](const v1::Job* job) {
    if (job == nullptr) return std::string("user");
    return job->user().empty() ? "-" : shortened(base::printable(job->user()), kMaxName);
  };
  std::size_t width = 0;
  for (const v1::Job& job : jobs) width = std::max({width, shown(nullptr).size(), columns_of(shown(&job))});
  return [width, shown](const v1::Job* job) { return fmt::format("{:<{}}  ", shown(job), width); };
}

// Returns " (needs 16 slots, 12 are free)" for a job that waits.
std::string wait_remark(const v1::Job& job) {
  if (job.state() != v1::JOB_STATE_QUEUED || job.reason().empty()) return "";
  return fmt::format(" ({})", base::printable(job.reason()));
}

// Returns the column of names. It is empty if no job has a name.
Column name_column(const std::vector<v1::Job>& jobs) {
  std::size_t width = 0;
  for (const v1::Job& job : jobs) {
    if (!job.name().empty()) width = std::max({width, kNameHeading.size(), columns_of(shown_name(job))});
  }
  return [width](const v1::Job* job) {
    if (width == 0) return std::string();
    return fmt::format("{:<{}}  ", job == nullptr ? std::string(kNameHeading) : shown_name(*job), width);
  };
}

// A short table shows the jobs that need attention first.
int urgency_of_job(const v1::Job& job) {
  switch (job.state()) {
    case v1::JOB_STATE_FAILED:
    case v1::JOB_STATE_LOST:
      return 0;
    case v1::JOB_STATE_STARTING:
    case v1::JOB_STATE_RUNNING:
    case v1::JOB_STATE_STOPPING:
      return 1;
    case v1::JOB_STATE_QUEUED:
      return 2;
    default:
      return 3;
  }
}

// Formats the table. `more` is a column before the command. `remark` follows the command, and may be empty.
std::string jobs_table(const std::vector<v1::Job>& jobs, base::WallTime now, std::size_t most, const Column& more,
                       const std::function<std::string(const v1::Job&)>& remark = {}) {
  if (jobs.empty()) return {};
  const Column name = name_column(jobs);
  std::string table = fmt::format("{:<10}{:<11}{:>7}  {:>7}  {:>12}  {}{}{}\n", "job", "state", "ranks", "hosts", "age",
                                  more(nullptr), name(nullptr), "command");
  const auto shown = choose_rows(jobs.size(), most, [&](std::size_t row) { return urgency_of_job(jobs[row]); });
  for (const std::size_t row : shown) {
    const v1::Job& job = jobs[row];
    table += fmt::format("{:<10}{:<11}{:>7}  {:>7}  {:>12}  {}{}{}{}\n", base::printable(job.id()), state_of(job),
                         job.size(), hosts_of(job), age_of(job, now), more(&job), name(&job),
                         command_of(job, kMaxCommand), remark ? remark(job) : "");
  }
  return table + describe_rest(
                     "jobs", jobs.size(), shown, [&](std::size_t row) { return state_of(jobs[row]); }, kPipeListsThem);
}

struct EventText {
  const v1::Event& event;

  std::string operator()() const {
    switch (event.body_case()) {
      case v1::Event::kJobStarting:
        return fmt::format("job {} starts, {}", event.job_starting().job_id(),
                           plural(event.job_starting().placement().size(), "rank", "ranks"));
      case v1::Event::kHostUp:
        return fmt::format("{} is up by {}, containment {}", event.host_up().host(), event.host_up().link(),
                           event.host_up().containment());
      case v1::Event::kRankUp:
        return fmt::format("rank {} runs, pid {}", event.rank_up().rank(), event.rank_up().pid());
      case v1::Event::kRankEnded:
        return fmt::format("rank {} on {}: {}", event.rank_ended().rank(), event.rank_ended().host(),
                           model::describe(proto::rank_end_of(event.rank_ended())));
      case v1::Event::kHostSuspect:
        return fmt::format("{} {}", event.host_suspect().host(),
                           event.host_suspect().suspect() ? "does not answer" : "answers again");
      case v1::Event::kJobStopping:
        return "stopping: " + event.job_stopping().reason();
      case v1::Event::kJobRestarting:
        return fmt::format("restart {} after rank {}: {}", event.job_restarting().attempt(),
                           event.job_restarting().rank(), event.job_restarting().reason());
      case v1::Event::kGenerationBegan:
        return model::describe(proto::generation_of(event.generation_began()));
      case v1::Event::kFirstCollectiveEnded:
        return model::describe(proto::first_collective_of(event.first_collective_ended()));
      case v1::Event::kHangReported:
        return "seems to hang: " + event.hang_reported().cause();
      case v1::Event::kWrongWorld:
        return "WARNING: " + model::describe(proto::wrong_world_of(event.wrong_world()));
      case v1::Event::kHostsLeftOut:
        return model::describe(proto::left_out_of(event.hosts_left_out()));
      case v1::Event::kLateHost:
        return model::describe(proto::late_host_of(event.late_host()));
      case v1::Event::kJobStateChanged: {
        const v1::JobStateChanged& change = event.job_state_changed();
        return state_name(change.state()) + (change.reason().empty() ? "" : ": " + change.reason());
      }
      case v1::Event::kElementChanged: {
        const v1::ElementChanged& change = event.element_changed();
        const std::string code = change.has_exit_code() ? fmt::format(", exit code {}", change.exit_code()) : "";
        return fmt::format("element {}: {}{}", change.index(), state_name(change.state()), code);
      }
      case v1::Event::kNotifyFailed:
        return "its --notify command failed: " + event.notify_failed().reason();
      case v1::Event::kJobEnded:
        return fmt::format("job {} ended with exit code {}", event.job_ended().job_id(), event.job_ended().exit_code());
      default:
        return "an event of a newer launcher";
    }
  }
};

}  // namespace

std::string state_name(v1::JobState state) {
  constexpr std::string_view kPrefix = "JOB_STATE_";
  const std::string name = v1::JobState_Name(state);
  return name.starts_with(kPrefix) ? name.substr(kPrefix.size()) : "UNKNOWN";
}

std::string format_jobs(const std::vector<v1::Job>& jobs, base::WallTime now, std::size_t most) {
  return jobs_table(jobs, now, most, [](const v1::Job*) { return std::string(); });
}

std::string format_wide_jobs(const std::vector<v1::Job>& jobs, base::WallTime now, std::size_t most) {
  return jobs_table(jobs, now, most, user_column(jobs), wait_remark);
}

std::string format_busy_jobs(const std::vector<v1::Job>& jobs, base::WallTime now) {
  return jobs_table(jobs, now, kAllRows, [](const v1::Job* job) {
    std::string text = job == nullptr ? "output" : "-";
    if (job != nullptr && job->has_output_bytes_per_second()) text = format_rate(job->output_bytes_per_second());
    return fmt::format("{:>9}  ", text);
  });
}

namespace {

// Returns text such as ", generation 3" if the job's hosts or size have changed, and ", restart 3" if it has only
// started again.
std::string generation_of_job(const v1::Job& job) {
  if (job.attempt() == 0) return "";
  return fmt::format(", {} {}", job.last_change().empty() ? "restart" : "generation", job.attempt());
}

// Returns "give-back", or an empty text if the size of the job cannot change.
std::string elastic_policy_of(const v1::Job& job) {
  switch (job.elastic_policy()) {
    case v1::ELASTIC_POLICY_FIXED:
      return "fixed";
    case v1::ELASTIC_POLICY_GIVE_BACK:
      return "give-back";
    case v1::ELASTIC_POLICY_GROW:
      return "grow";
    case v1::ELASTIC_POLICY_BOTH:
      return "both";
    default:
      return "";
  }
}

// Returns "failed host: n2: its agent ended; may be used again in 4m" as a line.
std::string line_of(const v1::FailedHost& host, base::WallTime now) {
  std::string when = "not used again in this job";
  if (host.has_usable_from()) {
    const base::Duration left = std::chrono::duration_cast<base::Duration>(wall_time_of(host.usable_from()) - now);
    when = left > base::Duration::zero() ? fmt::format("may be used again in {}", format_duration(left))
                                         : "may be used again now";
  }
  const std::string_view between = host.reason().empty() ? "" : "; ";
  return fmt::format("failed host: {}: {}{}{}\n", base::printable(host.name()), base::printable(host.reason()), between,
                     when);
}

// Returns "late: rank 37 (n5) came last in 83 % of 1204 steps, by 48 ms" as a line. Empty for a rank that is late as
// often as ranks are by chance.
std::string line_of(const v1::RankLateness& late) {
  if (!is_often_late(late)) return "";
  return fmt::format("late: rank {} ({}) came last in {} % of {} steps, by {}\n", late.rank(),
                     base::printable(late.host()), 100 * late.late() / late.operations(), late.operations(),
                     model::describe_lateness(std::chrono::microseconds(late.median_us())));
}

// Formats the lines about a job that are not part of a table.
std::string format_head(const v1::Job& job, base::WallTime now) {
  const std::string_view on = job.hosts().empty() ? "" : " on ";
  std::string text = fmt::format(
      "job {}: {} {} {}, {}{}{}{}\n", base::printable(job.id()), state_of(job), job.has_ended() ? "after" : "for",
      age_of(job, now), plural(job.size(), "rank", "ranks"), on,
      job.hosts().empty() ? std::string() : plural(job.hosts_size(), "host", "hosts"), generation_of_job(job));
  if (!job.last_change().empty()) text += fmt::format("last change: {}\n", base::printable(job.last_change()));
  if (job.has_first_collective_ms()) {
    const double seconds = static_cast<double>(job.first_collective_ms()) / 1000;
    text += fmt::format("first collective: {:.2f} s after the failure or the resize\n", seconds);
  }
  if (job.has_hang()) text += fmt::format("seems to hang: {}\n", base::printable(job.hang().cause()));
  if (job.has_wrong_world()) {
    text += fmt::format("WARNING: {}\n", base::printable(model::describe(proto::wrong_world_of(job.wrong_world()))));
  }
  for (const v1::RankLateness& late : job.late()) text += line_of(late);
  if (const std::string policy = elastic_policy_of(job); !policy.empty()) {
    text += fmt::format("elastic policy: {}\n", policy);
  }
  constexpr int kMostFailedHosts = 20;
  for (int i = 0; i < std::min(job.failed_hosts_size(), kMostFailedHosts); ++i) {
    text += line_of(job.failed_hosts(i), now);
  }
  if (job.failed_hosts_size() > kMostFailedHosts) {
    text += fmt::format("and {} more failed hosts; --json has all\n", job.failed_hosts_size() - kMostFailedHosts);
  }
  if (!job.name().empty()) text += fmt::format("name: {}\n", base::printable(job.name()));
  if (job.priority() != 0) text += fmt::format("priority: {}\n", job.priority());
  for (const v1::NameValue& label : job.labels()) {
    text += fmt::format("label: {}={}\n", base::printable(label.name()), base::printable(label.value()));
  }
  if (!job.user().empty()) text += fmt::format("user: {}\n", base::printable(job.user()));
  if (!job.working_directory().empty()) {
    text += fmt::format("directory: {}\n", base::printable(job.working_directory()));
  }
  if (job.has_array()) text += fmt::format("array: {}\n", describe_array(job.array()));
  if (job.has_deadline()) text += fmt::format("deadline: {}\n", format_local_time(wall_time_of(job.deadline())));
  if (job.has_expected_start()) {
    text += fmt::format("expected start: {}\n", format_local_time(wall_time_of(job.expected_start())));
  }
  if (job.has_submitted()) text += fmt::format("submitted: {}\n", format_local_time(wall_time_of(job.submitted())));
  if (job.has_started()) text += fmt::format("started: {}\n", format_local_time(wall_time_of(job.started())));
  if (job.has_ended()) text += fmt::format("ended: {}\n", format_local_time(wall_time_of(job.ended())));
  text += fmt::format("launcher: pid {} on {}\ncommand: {}\n", job.launcher_pid(), base::printable(job.launcher_host()),
                      command_of(job, std::string::npos));
  if (!job.reason().empty()) text += fmt::format("reason: {}\n", base::printable(job.reason()));
  if (job.has_retryable() && !job.retryable()) {
    text += fmt::format("retryable: no, a rank exited with {}\n", static_cast<int>(model::kNeverAgain));
  }
  return text;
}

}  // namespace

namespace {

// The hosts that need attention come first in a short table.
int urgency_of_host(const v1::Job& job, const v1::HostStatus& host) {
  if (host.suspect()) return 0;
  if (!host.up() && !job.has_ended()) return host.ranks() > 0 ? 1 : 2;
  return host.ranks() > 0 ? 3 : 4;
}

int urgency_of_rank(const v1::RankStatus& rank) {
  switch (rank.state()) {
    case v1::RANK_STATE_RUNNING:
      return 3;
    case v1::RANK_STATE_ENDED: {
      const model::RankEnd end = proto::rank_end_of(rank.end());
      return end.failed() && end.kind != model::EndKind::kStopped ? 0 : 2;
    }
    default:
      return 1;
  }
}

std::string format_job_hosts(const v1::Job& job, std::size_t width, std::size_t most) {
  const auto shown = choose_rows(static_cast<std::size_t>(job.hosts_size()), most, [&](std::size_t row) {
    return urgency_of_host(job, job.hosts(static_cast<int>(row)));
  });
  std::string text =
      fmt::format("\n{:<{}}  {:>5}  {:<15}  {:<4}  {}\n", "host", width, "ranks", "state", "link", "containment");
  for (const std::size_t row : shown) {
    const v1::HostStatus& host = job.hosts(static_cast<int>(row));
    text += fmt::format("{:<{}}  {:>5}  {:<15}  {:<4}  {}\n", base::printable(host.name()), width, host.ranks(),
                        host_state(job, host), host.up() ? host.link() : "-",
                        host.up() ? base::printable(host.containment()) : "-");
  }
  return text + describe_rest("hosts", static_cast<std::size_t>(job.hosts_size()), shown,
                              [&](std::size_t row) { return host_state(job, job.hosts(static_cast<int>(row))); });
}

std::string format_job_ranks(const v1::Job& job, std::size_t width, std::size_t most) {
  const auto shown = choose_rows(static_cast<std::size_t>(job.ranks_size()), most,
                                 [&](std::size_t row) { return urgency_of_rank(job.ranks(static_cast<int>(row))); });
  const bool has_roles = !job.roles().empty();
  const bool is_bound = std::ranges::any_of(job.ranks(), &v1::RankStatus::has_binding);
  std::size_t gpus = 3;
  std::size_t cores = 5;
  for (const std::size_t row : shown) {
    gpus = std::max(gpus, gpus_of(job.ranks(static_cast<int>(row))).size());
    cores = std::max(cores, cores_of(job.ranks(static_cast<int>(row))).size());
  }
  const auto bound = [&](const std::string& gpu, const std::string& core) {
    return is_bound ? fmt::format("{:<{}}  {:<{}}  ", gpu, gpus, core, cores) : std::string();
  };
  std::string text =
      fmt::format("\n{:>6}  {}{:<{}}  {:>8}  {}{}\n", "rank", has_roles ? fmt::format("{:<12}", "role") : "", "host",
                  width, "pid", bound("gpu", "cores"), "state");
  for (const std::size_t row : shown) {
    const v1::RankStatus& rank = job.ranks(static_cast<int>(row));
    text += fmt::format("{:>6}  {}{:<{}}  {:>8}  {}{}\n", rank.rank(),
                        has_roles ? fmt::format("{:<12}", role_name(job, rank.rank())) : "",
                        base::printable(rank.host()), width, rank.pid() > 0 ? fmt::format("{}", rank.pid()) : "-",
                        bound(gpus_of(rank), cores_of(rank)), rank_state(rank));
  }
  return text + describe_rest("ranks", static_cast<std::size_t>(job.ranks_size()), shown,
                              [&](std::size_t row) { return rank_state(job.ranks(static_cast<int>(row))); });
}

}  // namespace

std::string format_status(const v1::Job& job, base::WallTime now, std::size_t most) {
  std::string text = format_head(job, now);
  if (job.hosts().empty()) return text;  // the job waits, or never started
  std::size_t width = 4;
  for (const v1::HostStatus& host : job.hosts()) width = std::max(width, host.name().size());
  return text + format_job_hosts(job, width, most) + format_job_ranks(job, width, most);
}

std::string event_text(const v1::Event& event) {
  return base::printable(EventText{event}());
}

std::string format_event(const v1::Event& event) {
  // Show local time, as the labels of output do.
  return fmt::format("{} {}\n", format_local_micros(wall_time_of(event.time())), event_text(event));
}

JobTexts texts_of(const v1::Job& job, base::WallTime now) {
  return {.state = state_of(job),
          .hosts = hosts_of(job),
          .age = age_of(job, now),
          .command = command_of(job, std::string::npos)};
}

RankTexts texts_of(const v1::Job& job, const v1::RankStatus& rank) {
  return {.role = role_name(job, rank.rank()),
          .pid = rank.pid() > 0 ? fmt::format("{}", rank.pid()) : "-",
          .gpus = gpus_of(rank),
          .cores = cores_of(rank),
          .state = rank_state(rank)};
}

std::string format_job_head(const v1::Job& job, base::WallTime now) {
  return format_head(job, now);
}

bool is_often_late(const v1::RankLateness& late) {
  constexpr std::int64_t kLeastOperations = 10;
  return late.operations() >= kLeastOperations && 4 * late.late() > late.operations();
}

}  // namespace muster::cli::view
