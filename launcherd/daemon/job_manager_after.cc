// The part of JobManager for jobs that wait for other jobs, for updates of jobs, and for expected starts.
// Read it in this order: check_awaited, awaited_ended, update, store_update, updated, add_expected_start.
#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "launcherd/daemon/dependencies.h"
#include "launcherd/daemon/job_manager.h"
#include "launcherd/daemon/job_view.h"
#include "launcherd/queue/expected_start.h"
#include "model/exit_code.h"
#include "proto/stored_event.h"

namespace muster::launcherd::inline daemon {
namespace {

using base::Code;

// Pause before the next look at a job whose end is on its way to the store.
constexpr std::chrono::milliseconds kLookAgain{100};

bool changes_after(const v1::UpdateJobRequest& request) {
  return request.no_after() || !request.after().empty();
}

bool changes_deadline(const v1::UpdateJobRequest& request) {
  return request.no_deadline() || request.has_deadline();
}

base::Status check_update(const v1::UpdateJobRequest& request) {
  if (!request.has_priority() && !changes_deadline(request) && !changes_after(request)) {
    return base::invalid_argument("nothing is to change: set priority, deadline or after");
  }
  if (request.no_deadline() && request.has_deadline()) {
    return base::invalid_argument("no_deadline: must not be set together with deadline");
  }
  if (request.no_after() && !request.after().empty()) {
    return base::invalid_argument("no_after: must not be set together with after");
  }
  if (request.has_deadline()) return proto::deadline_of("deadline", request.deadline()).status();
  return base::ok_status();
}

// An update, checked. Fields that do not change are not set.
struct ReadUpdate {
  std::optional<std::vector<model::JobDependency>> after{};
  std::optional<std::string> spec{};
};

base::Result<ReadUpdate> read_update(StoreReader& reader, const base::JobId& id, const v1::UpdateJobRequest& request) {
  ReadUpdate update;
  if (changes_after(request)) {
    MUSTER_ASSIGN_OR_RETURN(update.after, read_dependencies(reader, request.after()));
  }
  if (!changes_deadline(request)) return update;
  MUSTER_ASSIGN_OR_RETURN(v1::StoredSpec spec, stored_spec(reader, id));
  spec.mutable_deadline()->clear_time();
  if (request.has_deadline()) *spec.mutable_deadline()->mutable_time() = request.deadline();
  update.spec = spec.SerializeAsString();
  return update;
}

std::string utc(base::WallTime time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

// Returns "priority 5, deadline 2026-06-20T17:05:53Z, waits for no job; set by ann".
std::string describe_update(const v1::UpdateJobRequest& request,
                            const std::optional<std::vector<model::JobDependency>>& after, const std::string& user) {
  std::vector<std::string> parts;
  if (request.has_priority()) parts.push_back(fmt::format("priority {}", request.priority()));
  if (request.no_deadline()) parts.emplace_back("no deadline");
  if (request.has_deadline()) {
    parts.push_back("deadline " + utc(*proto::deadline_of("deadline", request.deadline())));
  }
  if (after && after->empty()) parts.emplace_back("waits for no job");
  for (const model::JobDependency& each : after.value_or(std::vector<model::JobDependency>())) {
    parts.push_back("waits for " + model::describe(each));
  }
  return base::join(parts, ", ") + (user.empty() ? "" : "; set by " + user);
}

}  // namespace

std::string JobManager::waits_for(const base::JobId& id) const {
  const auto& awaited = after_.awaited_by(id);
  if (awaited.empty()) return "";
  const std::size_t more = awaited.size() - 1;
  return fmt::format("waits for {}{}", model::describe(awaited.front()),
                     more == 0 ? "" : fmt::format(" and {} more job{}", more, more == 1 ? "" : "s"));
}

// Jobs that are open tell when they end (tell_waiting).
void JobManager::check_awaited(const base::JobId& id) {
  for (const model::JobDependency& each : std::vector(after_.awaited_by(id))) {
    if (is_open(each.job)) continue;
    store_->read<StoredJob>(
        [awaited = each.job](StoreReader& reader) { return reader.job(awaited); },
        gate_.wrap([this, id, awaited = each.job](const base::Result<StoredJob>& job) {
          if (is_open(awaited)) return;
          if (job.ok() && !model::is_final(job->state)) {
            looks_again_.insert_or_assign(id, loop_.after(kLookAgain, [this, id] { check_awaited(id); }));
          } else if (job.ok()) {
            awaited_ended(id, awaited, job->state, how_ended(job->state, job->exit_code.value_or(0)));
          } else if (job.status().code() == Code::kNotFound) {
            awaited_ended(id, awaited, std::nullopt, "has been removed, so that its end is unknown");
          } else {
            surroundings_.on_line(fmt::format("job {}: cannot look at job {}, for which it waits: {}", id.str(),
                                              awaited.str(), job.status().message()));
            looks_again_.insert_or_assign(id, loop_.after(std::chrono::seconds(1), [this, id] { check_awaited(id); }));
          }
        }));
  }
}

void JobManager::tell_waiting(const base::JobId& ended, model::JobState state, int exit_code) {
  for (const base::JobId& waiting : after_.waiting_for(ended)) {
    awaited_ended(waiting, ended, state, how_ended(state, exit_code));
  }
}

void JobManager::awaited_ended(const base::JobId& waiting, const base::JobId& awaited,
                               std::optional<model::JobState> state, const std::string& how) {
  OpenJob* const job = find(waiting);
  // updated() looks at all of them again.
  if (job == nullptr || job->has_ended || job->is_after_changing) return;
  std::vector<model::JobDependency> left = after_.awaited_by(waiting);
  const auto found = std::ranges::find(left, awaited, &model::JobDependency::job);
  if (found == left.end()) return;
  // A job that was removed had ended.
  const bool is_met = state ? model::judge(found->condition, *state) == model::Dependency::kMet
                            : found->condition == model::AfterEnd::kAny;
  if (!is_met) {
    return end_waiting(waiting, model::JobState::kFailed, model::kMusterFailed,
                       fmt::format("it waited for the success of job {}, which {}", awaited.str(), how),
                       [](const base::Status&) {});
  }
  left.erase(found);
  after_.set(waiting, left);
  const bool is_free = left.empty() && !job->held_by;
  Batch batch = {NewAfter{.job = waiting, .after = std::move(left)}};
  if (is_free) {
    const std::string reason = fmt::format("job {} {}; waits for slots", awaited.str(), how);
    const base::WallTime now = surroundings_.clock->wall();
    batch.push_back(
        NewEvent{.job = waiting,
                 .time = now,
                 .message = proto::stored_event(model::JobStateChanged{model::JobState::kQueued, reason}, now),
                 .job_step = JobStep{.to = model::JobState::kQueued, .reason = reason}});
  }
  record(waiting, std::move(batch), {});
  block_or_release(*job);
  schedule();
}

void JobManager::update(const base::JobId& id, const v1::UpdateJobRequest& request, const std::string& user,
                        std::function<void(base::Status)> done) {
  if (const base::Status wrong = check_update(request); !wrong.ok()) return done(wrong);
  store_->read<ReadUpdate>([id, request](StoreReader& reader) { return read_update(reader, id, request); },
                           gate_.wrap([this, id, request, user, done = std::move(done)](base::Result<ReadUpdate> read) {
                             if (!find(id)) return done(not_open(id));
                             if (!read.ok()) return done(read.status());
                             store_update(id, request, user, std::move(read->after), std::move(read->spec), done);
                           }));
}

base::Status JobManager::check_terms(const OpenJob& job, const v1::UpdateJobRequest& request,
                                     const std::optional<std::vector<model::JobDependency>>& after) const {
  const bool has_started = job.running != nullptr || (job.array && job.array->state != model::JobState::kQueued);
  if (changes_deadline(request) && has_started && job.has_end_signal) {
    return base::failed_precondition(
        "deadline: job {} runs and has --signal, whose time is fixed when the ranks start; it keeps its deadline",
        job.id.str());
  }
  if (!after) return base::ok_status();
  if (has_started) {
    return base::failed_precondition("after: job {} no longer waits, so it cannot wait for other jobs", job.id.str());
  }
  if (job.is_after_changing) {
    return base::error(Code::kAborted, "after: another change of job {} is being stored: try again in a moment",
                       job.id.str());
  }
  const std::vector<base::JobId> circle = after_.circle(job.id, *after);
  if (circle.empty()) return base::ok_status();
  std::vector<std::string> names;
  for (const base::JobId& each : circle) names.push_back(each.str());
  return base::failed_precondition("after: these jobs would wait for each other: {}", base::join(names, " -> "));
}

// From now on the job waits for its former and for its new jobs, until the disk has the change. So it never starts
// between the two, and a change on its way counts when circles are searched.
void JobManager::store_update(const base::JobId& id, const v1::UpdateJobRequest& request, const std::string& user,
                              std::optional<std::vector<model::JobDependency>> after, std::optional<std::string> spec,
                              std::function<void(base::Status)> done) {
  OpenJob& job = *find(id);
  if (job.has_ended) return done(not_open(id));
  if (const base::Status refused = check_terms(job, request, after); !refused.ok()) return done(refused);
  model::JobState state = model::JobState::kQueued;
  if (job.running != nullptr) state = job.running->state();
  if (job.array) state = job.array->state;
  const base::WallTime now = surroundings_.clock->wall();
  const auto priority = request.has_priority() ? std::optional(request.priority()) : std::nullopt;
  Batch batch = {NewTerms{.job = id, .priority = priority, .spec = std::move(spec)},
                 NewEvent{.job = id,
                          .time = now,
                          .message = proto::stored_event(
                              model::JobStateChanged{state, describe_update(request, after, user)}, now)}};
  std::vector<model::JobDependency> before = after_.awaited_by(id);
  if (after) {
    batch.push_back(NewAfter{.job = id, .after = *after});
    std::vector<model::JobDependency> both = *after;
    std::ranges::copy_if(before, std::back_inserter(both), [&](const model::JobDependency& each) {
      return std::ranges::find(*after, each.job, &model::JobDependency::job) == after->end();
    });
    after_.set(id, std::move(both));
    job.is_after_changing = true;
    block_or_release(job);
  }
  store_->append(std::move(batch),
                 gate_.wrap([this, id, request, after, before, done = std::move(done)](const base::Status& status) {
                   updated(id, request, status.ok() || !after ? after : std::optional(before), status);
                   done(status);
                   if (on_change) on_change(id);
                 }));
}

// `after` is what the job waits for now. nullopt: as before.
void JobManager::updated(const base::JobId& id, const v1::UpdateJobRequest& request,
                         const std::optional<std::vector<model::JobDependency>>& after, const base::Status& status) {
  OpenJob* const job = find(id);
  if (job == nullptr || job->has_ended) return;
  if (status.ok() && request.has_priority()) {
    job->sized.priority = request.priority();
    queue_.set_priority(id, request.priority());
    if (job->array) job->array->set_priority(request.priority());
  }
  if (status.ok() && changes_deadline(request)) {
    job->deadline_at.reset();
    if (request.has_deadline()) job->deadline_at = *proto::deadline_of("deadline", request.deadline());
    job->deadline = deadline_timer(id, job->deadline_at);
  }
  if (after) {
    after_.set(id, *after);
    job->is_after_changing = false;
    block_or_release(*job);
    check_awaited(id);
  }
  schedule();
}

void JobManager::add_expected_start(v1::Job& job) const {
  const auto id = base::JobId::parse(job.id());
  if (!id.ok() || !queue_.has(*id) || queue_.size() > kMostEstimated) return;
  const base::WallTime now = surroundings_.clock->wall();
  const auto left_of = [now](const OpenJob& each, base::WallTime started) -> std::optional<base::Duration> {
    if (!each.limit && !each.deadline_at) return std::nullopt;
    auto end = each.deadline_at.value_or(base::WallTime::max());
    if (each.limit) end = std::min(end, started + *each.limit);
    return std::chrono::duration_cast<base::Duration>(std::max(end, now) - now);
  };
  std::vector<RunningUntil> running;
  for (const auto& [other, each] : jobs_) {
    if (each.running == nullptr) continue;
    const auto left = left_of(each, each.started_at);
    if (left) running.push_back({each.running->allocation(), *left});
  }
  const auto until = expected_start(queue_, *id, hosts_.slots(), running, [&](const base::JobId& other) {
    const auto found = jobs_.find(other);
    return found == jobs_.end() ? std::nullopt : left_of(found->second, now);
  });
  if (!until) return;
  const auto at =
      std::chrono::floor<std::chrono::seconds>(now + std::chrono::duration_cast<base::WallTime::duration>(*until));
  job.mutable_expected_start()->set_seconds(at.time_since_epoch().count());
}

}  // namespace muster::launcherd::daemon
