// The part of JobManager for jobs that are held, released or submitted once more.
#include <utility>

#include "launcherd/daemon/job_manager.h"
#include "launcherd/daemon/job_view.h"
#include "proto/stored_event.h"

namespace muster::launcherd::inline daemon {

// The queue keeps the job from now on, and not only when the disk has the hold. If the hold cannot be stored, the job
// waits as before.
void JobManager::hold(const base::JobId& id, const std::string& user, std::function<void(base::Status)> done) {
  OpenJob* const job = find(id);
  if (job == nullptr || job->has_ended) return done(not_open(id));
  if (job->running != nullptr || (job->array && job->array->state != model::JobState::kQueued)) {
    return done(base::failed_precondition("job {} no longer waits, so it cannot be held", id.str()));
  }
  const bool was_held = job->held_by.has_value();
  const int change = ++job->hold_changes;
  if (!was_held) job->held_by = user;
  queue_.hold(id);
  store_hold(id, model::JobTrigger::kHold, job->held_by,
             [this, id, change, was_held, done](const base::Status& status) {
               OpenJob* const now = find(id);
               if (!status.ok() && !was_held && now != nullptr && now->hold_changes == change) {
                 now->held_by.reset();
                 block_or_release(*now);
                 schedule();
               }
               done(status);
             });
}

// The job may start only when the disk has its release. A hold that comes in between wins.
void JobManager::release(const base::JobId& id, std::function<void(base::Status)> done) {
  OpenJob* const job = find(id);
  if (job == nullptr || job->has_ended) return done(not_open(id));
  if (!job->held_by) return done(base::ok_status());
  const int change = ++job->hold_changes;
  store_hold(id, model::JobTrigger::kRelease, std::nullopt, [this, id, change, done](const base::Status& status) {
    OpenJob* const now = find(id);
    if (status.ok() && now != nullptr && now->hold_changes == change) {
      now->held_by.reset();
      block_or_release(*now);
      schedule();
    }
    done(status);
  });
}

void JobManager::store_hold(const base::JobId& id, model::JobTrigger trigger, const std::optional<std::string>& held_by,
                            std::function<void(base::Status)> done) {
  const auto moved = model::next_state(model::JobState::kQueued, trigger);
  MUSTER_CHECK(moved.has_value());
  const std::string reason = held_by ? held_reason(*held_by) : std::string(moved->reason);
  const base::WallTime now = surroundings_.clock->wall();
  Batch batch = {NewEvent{.job = id,
                          .time = now,
                          .message = proto::stored_event(model::JobStateChanged{moved->to, reason}, now),
                          .job_step = JobStep{.to = moved->to, .reason = reason}},
                 NewHold{.job = id, .held_by = held_by}};
  store_->append(std::move(batch), gate_.wrap([this, id, done = std::move(done)](const base::Status& status) {
    done(status);
    if (on_change) on_change(id);
  }));
}

void JobManager::keep_environment(const base::JobId& id, base::Loop::Task then) {
  store_->read<std::string>([id](StoreReader& reader) { return reader.environment(id); },
                            gate_.wrap([this, id, then = std::move(then)](base::Result<std::string> environment) {
                              OpenJob* const job = find(id);
                              if (job != nullptr && environment.ok()) job->environment = *std::move(environment);
                              then();
                            }));
}

void JobManager::rerun(const base::JobId& id, const std::string& request_id, const std::string& user,
                       Reply<v1::SubmitResponse> reply) {
  store_->read<StoredRerun>([id, request_id](StoreReader& reader) { return read_rerun(reader, id, request_id); },
                            gate_.wrap([this, id, user, reply = std::move(reply)](base::Result<StoredRerun> stored) {
                              if (!stored.ok()) return reply(stored.status());
                              resubmit(id, *std::move(stored), user, reply);
                            }));
}

void JobManager::resubmit(const base::JobId& id, StoredRerun stored, const std::string& user,
                          Reply<v1::SubmitResponse> reply) {
  if (stored.known) {
    v1::SubmitResponse response;
    response.set_job_id(stored.known->str());
    return reply(std::move(response));
  }
  const OpenJob* const job = find(id);
  const std::string* environment = ended_environments_.find(id);
  if (job != nullptr && job->environment) environment = &*job->environment;
  if (stored.environment) environment = &*stored.environment;
  auto request = complete_rerun(id, std::move(stored.request), environment, surroundings_.clock->wall());
  if (!request.ok()) return reply(request.status());
  submit(*request, user, std::move(reply));
}

}  // namespace muster::launcherd::daemon
