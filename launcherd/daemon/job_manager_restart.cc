// The part of JobManager for jobs of the last launcherd: those that wait, and those that were running.
#include <utility>

#include "launcherd/daemon/job_manager.h"
#include "launcherd/daemon/job_view.h"
#include "launcherd/queue/job_need.h"
#include "model/exit_code.h"
#include "model/job_placement.h"

namespace muster::launcherd::inline daemon {
namespace {

using base::Code;

}  // namespace

base::Status JobManager::load_blocking(StoreReader& reader) {
  MUSTER_ASSIGN_OR_RETURN(const auto hosts, reader.hosts());
  for (const StoredHost& host : hosts) hosts_.apply(host);
  for (std::int64_t after = 0;;) {
    MUSTER_ASSIGN_OR_RETURN(const auto page, reader.open_jobs(after, kLongestPage));
    if (page.empty()) break;
    for (const StoredJob& stored : page) MUSTER_RETURN_IF_ERROR(load_job(reader, stored));
    after = page.back().number;
  }
  // The last element may have ended just before the last launcherd did.
  std::vector<base::JobId> arrays;
  for (const auto& [id, job] : jobs_) {
    if (job.array) arrays.push_back(id);
  }
  for (const base::JobId& id : arrays) end_array_if_over(id);
  notify_of_page(0);
  ask_for_gpus();
  return base::ok_status();
}

// Loads one job. If its records are corrupt or of another version, only this job ends.
base::Status JobManager::load_job(StoreReader& reader, const StoredJob& stored) {
  const auto spec = stored_spec(reader, stored.id);
  if (!spec.ok() && spec.status().code() != Code::kDataLoss) return spec.status();
  const bool is_array = spec.ok() && spec->request().has_array();
  if (spec.ok()) resume_trace(reader, stored);
  meter_.add(stored.id, stored.submitted, stored.started, stored.state, is_array);
  base::Status loaded = spec.status();
  if (loaded.ok() && (stored.state == model::JobState::kQueued || spec->request().has_array())) {
    loaded = let_wait(reader, stored, *spec);
  } else if (loaded.ok()) {
    loaded = resume_running(reader, stored, *spec);
  }
  if (!loaded.ok()) give_up(stored, spec.ok() ? *spec : v1::StoredSpec(), loaded.message());
  return base::ok_status();
}

base::Status JobManager::let_wait(StoreReader& reader, const StoredJob& stored, const v1::StoredSpec& spec) {
  // Check the request alone first, so that the error is about the job.
  MUSTER_RETURN_IF_ERROR(proto::submission_of(spec.request()).status());
  MUSTER_ASSIGN_OR_RETURN(const proto::Submission submission, stored_submission(reader, stored.id));
  MUSTER_ASSIGN_OR_RETURN(std::vector<model::JobDependency> after, reader.after(stored.id));
  JobNeed need = need_of(submission.job, spec.size());
  OpenJob job = open_job(stored.id, spec.size(), submission, spec.request(), stored.user, stored.priority);
  job.held_by = stored.held_by;
  if (submission.array) {
    make_array(job, submission, spec.request(), stored.user);
    MUSTER_RETURN_IF_ERROR(load_elements(reader, stored, job));
  }
  enqueue(std::move(job), std::move(need), std::move(after));
  return base::ok_status();
}

base::Status JobManager::resume_running(StoreReader& reader, const StoredJob& stored, const v1::StoredSpec& spec) {
  ResumedJob resumed{.job = stored, .recovery = {}, .ranks = {}};
  MUSTER_ASSIGN_OR_RETURN(const std::string bytes, reader.recovery(stored.id));
  MUSTER_ASSIGN_OR_RETURN(resumed.recovery, recovery_of(bytes));
  // The array has the environment of its elements.
  const base::JobId& source = stored.element ? stored.element->array : stored.id;
  MUSTER_ASSIGN_OR_RETURN(proto::Submission submission, stored_submission(reader, source));
  if (stored.element) add_array_variables(*stored.element, submission.job);
  for (int first = 0;;) {
    MUSTER_ASSIGN_OR_RETURN(const auto page, reader.ranks(stored.id, resumed.recovery.attempt, first, kLongestPage));
    if (page.empty()) break;
    first = page.back().rank + 1;
    resumed.ranks.insert(resumed.ranks.end(), page.begin(), page.end());
  }
  OpenJob& job = jobs_
                     .insert_or_assign(stored.id, open_job(stored.id, spec.size(), submission, spec.request(),
                                                           stored.user, stored.priority))
                     .first->second;
  job.element = stored.element;
  job.started_at = stored.started.value_or(stored.submitted);
  if (!stored.element) {
    MUSTER_ASSIGN_OR_RETURN(job.environment, reader.environment(stored.id));
    job.deadline = deadline_timer(stored.id, job.deadline_at);
  }
  job.need = need_of(submission.job, spec.size());
  job.has_run = stored.state != model::JobState::kStarting || !resumed.ranks.empty();
  job.need.request.np = resumed.recovery.placement.size;
  job.sized.changed_at = surroundings_.clock->now();
  if (resumed.recovery.generation && resumed.recovery.generation->wait) waiting_for_hosts_.insert(stored.id);
  if (!job.need.request.hosts.empty()) {  // muster hosts add may have given it further ones
    for (const model::PlacedHost& placed : resumed.recovery.placement.hosts) {
      if (job.need.wanted(placed.host.name) == nullptr) job.need.request.hosts.push_back({.name = placed.host.name});
    }
    if (resumed.recovery.generation) {
      for (const model::HostSpec& host : resumed.recovery.generation->resize_hosts) {
        if (job.need.wanted(host.name) == nullptr) job.need.request.hosts.push_back({.name = host.name});
      }
    }
  }
  job.running = std::make_unique<RunningJob>(surroundings_, std::move(resumed), owner_of(stored.id));
  hosts_.acquire(job.running->allocation());
  job.used_slots = job.running->allocation().size;
  queue_.count_use(job.group, job.used_slots);
  job.running->start(submission.job, submission.requests);
  return base::ok_status();
}

// Ends a job that cannot start or continue, because its records cannot be used.
void JobManager::give_up(const StoredJob& stored, const v1::StoredSpec& spec, const std::string& why) {
  const auto submission = proto::submission_of(spec.request());
  OpenJob job{.id = stored.id, .size = spec.size(), .has_ended = true};
  job.element = stored.element;
  job.notifies = !spec.request().notify().empty();
  job.retention = submission.ok() ? submission->retention : proto::Submission().retention;
  const bool has_waited = stored.state == model::JobState::kQueued;
  job.end_state = has_waited ? model::JobState::kFailed : model::JobState::kLost;
  job.end_code = model::kMusterFailed;
  jobs_.insert_or_assign(stored.id, std::move(job));
  const std::string reason = has_waited
                                 ? fmt::format("this launcherd cannot read the waiting job: {}; submit it again", why)
                                 : fmt::format("launcherd ended while the job ran and cannot resume it: {}", why);
  surroundings_.on_line(fmt::format("job {}: {}", stored.id.str(), reason));
  record(stored.id,
         end_without_ranks(stored.id, stored.attempt, has_waited ? model::JobState::kFailed : model::JobState::kLost,
                           model::kMusterFailed, reason, surroundings_.clock->wall()),
         [this, id = stored.id](const base::Status&) { ended(id); });
}

}  // namespace muster::launcherd::daemon
