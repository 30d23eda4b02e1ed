// Reads the options that say what happens after a failure, and how the size of a job may change. The entry points are
// at the end of the file: check_restarts(), read_failure(), read_elastic() and read_spares().
#include "cli/options/failure_options.h"

#include <optional>
#include <utility>

#include "base/strings.h"

namespace muster::cli::inline options {
namespace {

using std::chrono::milliseconds;

// Restarts that --on-failure allows if --max-restarts is not given. torch's Python API has the same default.
constexpr int kUsualRestarts = 3;

// Reads the range of --blacklist-cooldown-range, in seconds.
Status read_cooldown(const Setting& setting, std::optional<std::pair<int, int>>& cooldown) {
  constexpr long kMost = 3600;
  const auto words = base::split(setting.value, ' ');
  const auto low = base::parse_decimal(words.front(), kMost);
  const auto high = base::parse_decimal(words.back(), kMost);
  if (words.size() == 2 && low && high && *low >= 1 && *low <= *high) {
    cooldown = {static_cast<int>(*low), static_cast<int>(*high)};
    return base::ok_status();
  }
  return base::invalid_argument("{} takes two numbers, the lower one first, from 1 to {} seconds, not '{}'",
                                setting.label, kMost, base::printable(setting.value));
}

// Refuses options that the policy would ignore.
void check_failure_policy(SettingReader& read, const JobRequest& request) {
  const model::FailurePolicy& policy = request.job.failure;
  if (!policy.spares.empty() && !model::may_change_hosts(policy)) {
    read.custom("spare", [](const Setting& setting) {
      return base::invalid_argument("{}: only --on-failure replace and --on-failure shrink use spare hosts",
                                    setting.label);
    });
  }
  bool is_chosen = false;
  read.custom("on-failure", [&](const Setting& /*setting*/) {
    is_chosen = true;
    return base::ok_status();
  });
  // With --on-failure replace it is the least size of muster resize.
  const bool is_implied = policy.on_failure == model::OnFailure::kReplace && !is_chosen;
  if (policy.on_failure == model::OnFailure::kRestart || is_implied) {
    read.custom("min-num-proc", [](const Setting& setting) {
      return base::invalid_argument(
          "{} lets ranks live on while others fail: leave out --on-failure, --max-restarts and --spares. If all ranks "
          "may start again with fewer of them, say --on-failure shrink",
          setting.label);
    });
  }
}

// With --on-hang restart and nothing else, a job starts again as with --on-failure restart.
void read_hang(SettingReader& read, model::JobSpec& job) {
  using enum model::OnHang;
  read.time("hang-timeout", milliseconds(0), job.hang.timeout);
  read.choice("on-hang", std::vector{kWarn, kRestart, kKill}, job.hang.on_hang);
  const bool keeps_to_fail = job.failure.on_failure == model::OnFailure::kFail && job.max_restarts == 0 && !job.live;
  if (job.hang.on_hang == kRestart && keeps_to_fail) job.max_restarts = kUsualRestarts;
}

}  // namespace

void read_spares(SettingReader& read, JobRequest& request) {
  read.custom("spare", [&](const Setting& setting) -> Status {
    if (const auto count = base::parse_decimal(setting.value, model::kMaxHosts)) {
      request.spares = static_cast<int>(*count);
      return base::ok_status();
    }
    auto spares = model::parse_host_list(setting.value, setting.label);
    if (!spares.ok()) {
      return base::invalid_argument("{} must be a number from 0 to {}, or a list of hosts as in -H: {}", setting.label,
                                    model::kMaxHosts, spares.status().message());
    }
    request.job.failure.spares = *std::move(spares);
    request.job.failure.on_failure = model::OnFailure::kReplace;
    return base::ok_status();
  });
}

void read_elastic(SettingReader& read, ElasticOptions& elastic, std::optional<model::ElasticSpec>& live) {
  std::optional<long> timeout;
  std::optional<long> resets;
  read.text("host-discovery-script", elastic.discovery_script);
  read.number("min-num-proc", 1, model::kMaxRanks, elastic.min_ranks);
  read.number("max-num-proc", 1, model::kMaxRanks, elastic.max_ranks);
  read.number("slots-per-host", 1, model::kMaxSlotsPerHost, elastic.slots_per_host);
  read.number("elastic-timeout", 0, 1'000'000'000, timeout);
  read.number("reset-limit", 0, 1'000'000'000, resets);
  std::optional<std::pair<int, int>> cooldown;
  read.custom("blacklist-cooldown-range",
              [&cooldown](const Setting& setting) { return read_cooldown(setting, cooldown); });
  if (!elastic.min_ranks) return;
  live.emplace();
  live->min_ranks = static_cast<int>(*elastic.min_ranks);
  if (elastic.max_ranks) live->max_ranks = static_cast<int>(*elastic.max_ranks);
  if (resets) live->reset_limit = static_cast<int>(*resets);
  if (timeout) live->elastic_timeout = std::chrono::seconds(*timeout);
  live->cooldown = cooldown;
}

void check_sizes(SettingReader& read, const JobRequest& request) {
  if (!request.elastic.min_ranks || !request.elastic.max_ranks) return;
  const long most = *request.elastic.max_ranks;
  const long least = *request.elastic.min_ranks;
  const int np = request.job.placement.np;
  read.custom("max-num-proc", [&](const Setting& setting) -> Status {
    if (most < least) return base::invalid_argument("{} {} is less than --min-np {}", setting.label, most, least);
    if (most < np) return base::invalid_argument("{} {} is less than -np {}", setting.label, most, np);
    return base::ok_status();
  });
}

void read_failure(SettingReader& read, JobRequest& request) {
  using enum model::OnFailure;
  model::JobSpec& job = request.job;
  model::FailurePolicy& policy = job.failure;
  model::ElasticPolicy elastic_policy = model::ElasticPolicy::kFixed;
  read.choice("on-failure", std::vector{kFail, kRestart, kReplace, kShrink}, policy.on_failure);
  if (policy.on_failure != kFail) {
    job.max_restarts = kUsualRestarts;
    job.live.reset();  // all ranks start again, so none of them lives on
  }
  read.number("max-restarts", 0, 1'000'000, job.max_restarts);
  read.text("progress-text", policy.progress_text);
  read.text("progress-file", policy.progress_file);
  read.time("failed-host-cooldown", milliseconds(0), policy.failed_host_cooldown);
  read.choice("elastic-policy",
              std::vector{model::ElasticPolicy::kFixed, model::ElasticPolicy::kGiveBack, model::ElasticPolicy::kGrow,
                          model::ElasticPolicy::kBoth},
              elastic_policy);
  read.custom("elastic-policy", [&](const Setting&) {
    request.elastic_policy = elastic_policy;
    return base::ok_status();
  });
  read_hang(read, job);
  if (policy.on_failure == kFail && job.max_restarts > 0) policy.on_failure = kRestart;
  check_failure_policy(read, request);
  if (!model::may_change_hosts(policy)) return;
  if (request.elastic.min_ranks) policy.min_ranks = static_cast<int>(*request.elastic.min_ranks);
  if (request.elastic.max_ranks) policy.max_ranks = static_cast<int>(*request.elastic.max_ranks);
}

Status check_elastic_policy(const JobRequest& request, bool is_for_launcherd) {
  if (!request.elastic_policy) return base::ok_status();
  if (!is_for_launcherd) {
    return base::invalid_argument(
        "--elastic-policy: only launcherd changes the size of a job by itself; add --launcher auto, or leave it out");
  }
  if (model::may_change_hosts(request.job.failure) || request.job.live) return base::ok_status();
  return base::invalid_argument(
      "--elastic-policy: this job keeps its size; add --min-np and --max-np, or add --on-failure shrink");
}

Status check_restarts(const JobRequest& request) {
  const model::FailurePolicy& policy = request.job.failure;
  if (request.job.min_hosts > 0 && request.job.live) {
    return base::invalid_argument(
        "--min-hosts: a job whose ranks live on (--min-np) starts on all its hosts; leave --min-hosts out, or add "
        "--on-failure shrink");
  }
  if (!policy.progress_file.empty() && policy.on_failure == model::OnFailure::kFail && request.job.max_restarts == 0) {
    return base::invalid_argument(
        "--progress-file: only a job that starts again counts failures; add --max-restarts or --on-failure, or leave "
        "it out");
  }
  if (policy.failed_host_cooldown && !model::may_change_hosts(policy)) {
    return base::invalid_argument(
        "--failed-host-cooldown: only --on-failure replace and --on-failure shrink leave failed hosts out");
  }
  return base::ok_status();
}

}  // namespace muster::cli::options
