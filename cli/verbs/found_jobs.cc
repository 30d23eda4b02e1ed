// This file asks foreground launchers and launcherd for jobs, and picks the one that the user means.
// Read job_named() first, then daemon_jobs() and none_meant(); one_job() and one_job_or_newest() call it.
#include "cli/verbs/found_jobs.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "base/env.h"
#include "base/strings.h"
#include "cli/help/base_names.h"
#include "cli/verbs/launcher_address.h"
#include "cli/view/log_output.h"
#include "model/job_array.h"

namespace muster::cli::inline verbs {
namespace {

using launcherd::ApiClient;
using launcherd::LauncherAddress;

constexpr std::size_t kMostIds = 10;  // most ids in one message

std::string ids_of(const std::vector<FoundJob>& jobs) {
  std::vector<std::string> ids;
  for (const FoundJob& job : jobs) {
    if (ids.size() < kMostIds) ids.push_back(job.id);
  }
  const std::size_t more = jobs.size() - ids.size();
  return base::join(ids, ", ") + (more > 0 ? fmt::format(" and {} more", more) : "");
}

void add_named(const std::vector<v1::Job>& jobs, const LauncherAddress& launcher, const std::string& name,
               std::vector<FoundJob>& found) {
  for (const v1::Job& job : jobs) {
    if (job.name() == name && std::ranges::find(found, job.id(), &FoundJob::id) == found.end()) {
      found.push_back({job.id(), launcher});
    }
  }
}

// Returns launcherd's jobs whose id begins with `word`, and those that have not ended and whose name is `word`. If
// `word` is empty, returns all jobs that have not ended.
base::Result<std::vector<FoundJob>> daemon_jobs(const LauncherAddress& launcher, const std::string& word) {
  ApiClient client(launcher);
  std::vector<FoundJob> found;
  if (word.empty()) {
    MUSTER_ASSIGN_OR_RETURN(const auto jobs, list_all_jobs(client, false));
    for (const v1::Job& job : jobs) found.push_back({job.id(), launcher});
    return found;
  }
  v1::GetJobRequest request;
  request.set_job(word);
  request.set_max_ranks(kNoRanks);
  const auto job = client.get_job(request, kPatience);
  if (!job.ok() && job.status().code() != Code::kNotFound) return job.status();
  if (job.ok()) found.push_back({job->id(), launcher});
  if (job.ok() && job->id() == word) return found;
  MUSTER_ASSIGN_OR_RETURN(const auto open, list_all_jobs(client, false));
  add_named(open, launcher, word, found);
  return found;
}

// Returns the newest of launcherd's jobs with this name. nullopt if none has it.
base::Result<std::optional<FoundJob>> newest_named(const LauncherAddress& launcher, const std::string& name) {
  ApiClient client(launcher);
  MUSTER_ASSIGN_OR_RETURN(const auto all, list_all_jobs(client, true));
  const v1::Job* newest = nullptr;
  for (const v1::Job& job : all) {
    const bool is_newer = newest == nullptr || wall_time_of(job.submitted()) > wall_time_of(newest->submitted());
    if (job.name() == name && is_newer) newest = &job;
  }
  return newest == nullptr ? std::optional<FoundJob>() : FoundJob{newest->id(), launcher};
}

// Adds the foreground jobs with this name. A job that ends while it is asked is left out.
void add_foreground_named(const std::vector<FoundJob>& foreground, const std::string& name,
                          std::vector<FoundJob>& found) {
  for (const FoundJob& job : foreground) {
    ApiClient client(job.launcher);
    const auto now = ask_job(client, job, kNoRanks);
    if (now.ok() && now->name() == name) add_named({*now}, job.launcher, name, found);
  }
}

// Returns the newest job in any state. nullopt if launcherd has no job at all.
base::Result<std::optional<FoundJob>> newest_job(const LauncherAddress& launcher) {
  v1::ListJobsRequest request;
  request.set_all(true);
  request.set_page_size(1);
  MUSTER_ASSIGN_OR_RETURN(const v1::ListJobsResponse page, ApiClient(launcher).list_jobs(request, kPatience));
  if (page.jobs().empty()) return std::optional<FoundJob>();
  return std::optional(FoundJob{page.jobs(0).id(), launcher});
}

base::Status none_meant(const std::vector<FoundJob>& foreground, bool has_daemon, const std::string& word) {
  if (word.empty() && has_daemon)
    return {Code::kNotFound, "no job of yours runs or waits: muster jobs --all lists all"};
  if (foreground.empty() && !has_daemon)
    return {Code::kNotFound, "no hvdrun of yours runs on this host, and no launcherd"};
  if (has_daemon) {
    return base::not_found("no job begins with {} or is named so: muster jobs --all lists them", base::printable(word));
  }
  return base::not_found("no job begins with {} or is named so: there are {}", base::printable(word),
                         ids_of(foreground));
}

}  // namespace

std::vector<FoundJob> foreground_jobs() {
  std::vector<FoundJob> jobs;
  for (const auto& found : launcherd::find_launchers(launcherd::api_directories(base::Environment::current()))) {
    jobs.push_back({found.job_id, launcherd::foreground_address(found.path)});
  }
  return jobs;
}

base::Result<std::vector<v1::Job>> list_all_jobs(ApiClient& client, bool all, const std::string& filter) {
  std::vector<v1::Job> jobs;
  v1::ListJobsRequest request;
  request.set_all(all);
  request.set_filter(filter);
  request.set_page_size(1000);
  while (true) {
    MUSTER_ASSIGN_OR_RETURN(v1::ListJobsResponse page, client.list_jobs(request, kPatience));
    std::move(page.mutable_jobs()->begin(), page.mutable_jobs()->end(), std::back_inserter(jobs));
    if (page.next_page_token().empty()) return jobs;
    request.set_page_token(page.next_page_token());
  }
}

base::Status name_by_ids(const LauncherAddress& launcher,
                         google::protobuf::RepeatedPtrField<v1::JobDependency>& after) {
  for (v1::JobDependency& each : after) {
    MUSTER_ASSIGN_OR_RETURN(const std::vector<FoundJob> found, daemon_jobs(launcher, each.job()));
    if (found.size() > 1) return base::invalid_argument("which job? There are {}", ids_of(found));
    std::optional<FoundJob> job;
    if (!found.empty()) job = found.front();
    if (!job) {
      MUSTER_ASSIGN_OR_RETURN(job, newest_named(launcher, each.job()));
    }
    if (!job) return none_meant({}, true, each.job());
    each.set_job(job->id);
  }
  return base::ok_status();
}

base::Result<FoundJob> job_named(const VerbCall& call, const std::string& word) {
  if (const model::JobWord words = model::parse_job_word(word); words.index) {
    MUSTER_ASSIGN_OR_RETURN(FoundJob array, job_named(call, std::string(words.job)));
    if (array.launcher.is_foreground_job) {
      return base::invalid_argument("job {} runs under a foreground hvdrun, so it has no elements", array.id);
    }
    array.id = model::element_name(array.id, *words.index);
    return array;
  }
  const std::vector<FoundJob> foreground = foreground_jobs();
  std::vector<FoundJob> meant;
  std::ranges::copy_if(foreground, std::back_inserter(meant),
                       [&](const FoundJob& job) { return job.id.starts_with(word); });
  MUSTER_ASSIGN_OR_RETURN(const auto daemon, find_launcherd(call.settings(), base::Environment::current()));
  if (daemon) {
    const auto more = daemon_jobs(*daemon, word);
    if (!more.ok() && (meant.empty() || more.status().code() == Code::kInvalidArgument)) return more.status();
    if (more.ok()) meant.insert(meant.end(), more->begin(), more->end());
  }
  const auto whole = std::ranges::find(meant, word, &FoundJob::id);
  if (whole != meant.end()) return *whole;
  if (!word.empty()) add_foreground_named(foreground, word, meant);
  if (meant.size() == 1) return meant.front();
  if (meant.empty() && daemon && !word.empty()) {
    MUSTER_ASSIGN_OR_RETURN(const auto ended, newest_named(*daemon, word));
    if (ended) return *ended;
  }
  if (meant.empty()) return none_meant(foreground, daemon.has_value(), word);
  return base::invalid_argument("which job? There are {}", ids_of(meant));
}

base::Result<FoundJob> one_job(const VerbCall& call) {
  if (call.words().size() > 1) {
    return base::invalid_argument("one job at a time: {} is one word too many", base::printable(call.words()[1]));
  }
  return job_named(call, call.words().empty() ? std::string() : call.words().front());
}

base::Result<FoundJob> one_job_or_newest(const VerbCall& call) {
  auto job = one_job(call);
  if (job.ok() || !call.words().empty() || job.status().code() != Code::kNotFound) return job;
  MUSTER_ASSIGN_OR_RETURN(const auto daemon, find_launcherd(call.settings(), base::Environment::current()));
  if (!daemon) return job;
  MUSTER_ASSIGN_OR_RETURN(const auto newest, newest_job(*daemon));
  if (!newest) return job;
  call.remark(fmt::format("no job runs or waits: this is {}, the last one that was submitted", newest->id));
  return *newest;
}

base::Result<v1::Job> ask_job(ApiClient& client, const FoundJob& job, int max_ranks) {
  v1::GetJobRequest request;
  request.set_job(job.name_there());
  request.set_max_ranks(max_ranks);
  MUSTER_ASSIGN_OR_RETURN(v1::Job whole, client.get_job(request, kPatience));
  while (max_ranks == 0 && whole.ranks_size() < whole.size()) {
    request.set_first_rank(whole.ranks_size());
    MUSTER_ASSIGN_OR_RETURN(const v1::Job more, client.get_job(request, kPatience));
    if (more.ranks().empty()) break;
    whole.mutable_ranks()->MergeFrom(more.ranks());
  }
  return whole;
}

}  // namespace muster::cli::verbs
