#include "cli/top/top_asker.h"

#include <algorithm>
#include <utility>

#include "cli/verbs/launcher_address.h"

namespace muster::cli::inline top {

using launcherd::ApiClient;

TopAsker::TopAsker(const std::optional<launcherd::LauncherAddress>& launcher)
    : pager_([this](const v1::ListJobsRequest& request) { return client_->list_jobs(request, kPatience); }) {
  if (!launcher) return;
  address_ = format_launcher_address(*launcher);
  client_.emplace(*launcher);
}

TopSample TopAsker::sample() {
  TopSample sample;
  sample.launcher = address_;
  if (client_) {
    auto hosts = client_->list_hosts(kPatience);
    auto jobs = hosts.ok() ? list_all_jobs(*client_, false) : hosts.status();
    if (hosts.ok()) sample.hosts.assign(hosts->hosts().begin(), hosts->hosts().end());
    if (jobs.ok()) sample.jobs = std::move(*jobs);
    if (!jobs.ok()) sample.problem = jobs.status().message();
  }
  ask_foreground(sample.jobs);
  sample.at = base::SystemClock().wall();
  return sample;
}

TopAnswer TopAsker::answer(const TopQuery& query) {
  TopAnswer answer{.query = query};
  if (client_) {
    if (const base::Status asked = ask_launcherd(answer); !asked.ok()) answer.problem = asked.message();
  }
  ask_foreground(answer.foreground);
  if (!query.job.empty()) ask_job(answer);
  answer.at = base::SystemClock().wall();
  return answer;
}

void TopAsker::cancel() {
  if (client_) client_->cancel();
}

base::Status TopAsker::ask_launcherd(TopAnswer& answer) {
  const TopQuery& query = answer.query;
  MUSTER_ASSIGN_OR_RETURN(const v1::ListHostsResponse hosts, client_->list_hosts(kPatience));
  answer.hosts.assign(hosts.hosts().begin(), hosts.hosts().end());
  MUSTER_ASSIGN_OR_RETURN(answer.rows, pager_.read(query.list, query.first, query.count));
  MUSTER_ASSIGN_OR_RETURN(answer.waiting, count_jobs({v1::JOB_STATE_QUEUED}));
  MUSTER_ASSIGN_OR_RETURN(answer.running,
                          count_jobs({v1::JOB_STATE_STARTING, v1::JOB_STATE_RUNNING, v1::JOB_STATE_STOPPING}));
  return query.host.empty() ? base::ok_status() : ask_host_jobs(answer);
}

base::Result<std::int64_t> TopAsker::count_jobs(std::initializer_list<v1::JobState> states) {
  v1::ListJobsRequest request;
  request.set_page_size(1);
  for (const v1::JobState state : states) request.add_states(state);
  MUSTER_ASSIGN_OR_RETURN(const v1::ListJobsResponse page, client_->list_jobs(request, kPatience));
  return page.total();
}

// launcherd's filter also finds jobs whose command names the host, and hosts whose names begin so.
base::Status TopAsker::ask_host_jobs(TopAnswer& answer) {
  constexpr int kMostJobs = 1000;  // that are looked at
  v1::ListJobsRequest request;
  request.set_filter(answer.query.host);
  request.set_page_size(kMostJobs);
  for (const auto state : {v1::JOB_STATE_STARTING, v1::JOB_STATE_RUNNING, v1::JOB_STATE_STOPPING}) {
    request.add_states(state);
  }
  MUSTER_ASSIGN_OR_RETURN(const v1::ListJobsResponse page, client_->list_jobs(request, kPatience));
  const auto is_there = [&](const v1::HostStatus& host) { return host.name() == answer.query.host; };
  for (const v1::Job& job : page.jobs()) {
    if (std::ranges::any_of(job.hosts(), is_there)) answer.host_jobs.push_back(job);
  }
  return base::ok_status();
}

void TopAsker::ask_foreground(std::vector<v1::Job>& jobs) {
  foreground_.clear();
  for (const FoundJob& found : foreground_jobs()) {
    ApiClient client(found.launcher);
    auto job = verbs::ask_job(client, found, kNoRanks);
    // Skip a failed answer, because it means that the job has ended since foreground_jobs() found it.
    if (!job.ok()) continue;
    foreground_.emplace(job->id(), found);
    jobs.push_back(std::move(*job));
  }
}

void TopAsker::ask_job(TopAnswer& answer) {
  const TopQuery& query = answer.query;
  v1::GetJobRequest request;
  request.set_first_rank(query.first_rank);
  request.set_max_ranks(query.rank_count);
  const auto found = foreground_.find(query.job);
  base::Result<v1::Job> job = base::not_found("it has ended");
  if (found != foreground_.end()) {
    ApiClient client(found->second.launcher);
    job = client.get_job(request, kPatience);
  } else if (client_) {
    request.set_job(query.job);
    job = client_->get_job(request, kPatience);
  }
  if (job.ok()) {
    answer.job = std::move(*job);
  } else if (job.status().message() != answer.problem) {
    answer.job_problem = job.status().message();
  }
}

}  // namespace muster::cli::top
