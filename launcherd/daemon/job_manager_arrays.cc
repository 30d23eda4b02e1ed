// The part of JobManager for arrays. An array is one job of the store and of the queue. When slots are free for one of
// its elements, the element becomes a job of its own, in the same batch that stores its start. Its number in the array
// is unique in the store, so no element runs twice. Read it in this order: make_array, start_element, element_record,
// element_ended, end_array_if_over, kill_array.
#include <algorithm>
#include <utility>

#include "launcherd/daemon/array_view.h"
#include "launcherd/daemon/job_manager.h"
#include "launcherd/daemon/job_view.h"
#include "model/exit_code.h"
#include "proto/stored_event.h"

namespace muster::launcherd::inline daemon {
namespace {

using base::Code;
using model::JobState;
using model::JobTrigger;

NewEvent element_event(const ArrayPlace& place, JobState state, std::optional<int> exit_code, base::WallTime now) {
  return {.job = place.array,
          .time = now,
          .message = proto::stored_event(model::ElementChanged{place.index, state, exit_code}, now)};
}

}  // namespace

bool JobManager::is_array(const base::JobId& id) const {
  const auto found = jobs_.find(id);
  return found != jobs_.end() && found->second.array != nullptr;
}

void JobManager::make_array(OpenJob& job, const proto::Submission& submission, const v1::SubmitRequest& request,
                            const std::string& user) {
  v1::StoredSpec spec;
  *spec.mutable_request() = proto::without_values(request);
  spec.mutable_request()->clear_request_id();
  spec.mutable_request()->clear_after();
  spec.mutable_request()->clear_notify();
  spec.mutable_request()->clear_array();
  spec.mutable_request()->clear_held();
  spec.set_size(job.size);
  NewJob element{.id = job.id, .name = request.name(), .priority = job.sized.priority, .user = user};
  element.spec = spec.SerializeAsString();
  job.array = std::make_unique<ArrayState>(*submission.array, std::move(element));
}

void JobManager::start_element(const JobQueue::Start& start) {
  OpenJob& array = *find(start.id);
  const int index = array.array->next();
  const base::JobId id = base::JobId::random();
  OpenJob element{.id = id,
                  .size = array.size,
                  .retention = array.retention,
                  .roles = array.roles,
                  .sized = array.sized,
                  .need = start.need,
                  .is_live = array.is_live};
  element.sized.id = id;
  element.sized.changed_at = surroundings_.clock->now();
  element.group = array.group;
  element.used_slots = start.placement.size;
  element.deadline_at = array.deadline_at;
  element.limit = array.limit;
  element.has_end_signal = array.has_end_signal;
  element.started_at = surroundings_.clock->wall();
  element.element = ArrayPlace{array.id, index};
  array.array->start(index, id);
  model::Placement placement = start.placement;
  placement.roles = element.roles;
  element.running = std::make_unique<RunningJob>(surroundings_, id, std::move(placement), owner_of(id));
  jobs_.insert_or_assign(id, std::move(element));
  ++counters_.submitted;
  meter_.add_element(id, array.id);
  record_start(id);
}

Batch JobManager::array_step(ArrayState& array, const base::JobId& id, JobTrigger trigger,
                             const std::string& reason) const {
  const auto moved = model::next_state(array.state, trigger);
  MUSTER_CHECK(moved.has_value());
  array.state = moved->to;
  const base::WallTime now = surroundings_.clock->wall();
  return {NewEvent{.job = id,
                   .time = now,
                   .message = proto::stored_event(model::JobStateChanged{moved->to, reason}, now),
                   .job_step = JobStep{.to = moved->to, .reason = reason}}};
}

// Returns the element's record and the array's events. They must be stored before the events of the element.
Batch JobManager::element_record(const OpenJob& element) {
  OpenJob& array = *find(element.element->array);
  const base::WallTime now = surroundings_.clock->wall();
  Batch batch;
  if (array.array->state == JobState::kQueued) {
    batch = array_step(*array.array, array.id, JobTrigger::kStart, "its first element starts");
    Batch runs = array_step(*array.array, array.id, JobTrigger::kAllUp, "its elements run");
    std::ranges::move(runs, std::back_inserter(batch));
  }
  batch.push_back(array.array->new_element(array.id, element.element->index, element.id, now));
  batch.push_back(element_event(*element.element, JobState::kStarting, std::nullopt, now));
  return batch;
}

// The array's event is in the same batch as the element's end, so that a crash loses both or none.
void JobManager::add_element_end(const base::JobId& id, Batch& batch) {
  const OpenJob* const job = find(id);
  if (job == nullptr || !job->element) return;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const auto* const event = std::get_if<NewEvent>(&batch[i]);
    if (event == nullptr || !event->job_step || !model::is_final(event->job_step->to)) continue;
    batch.push_back(element_event(*job->element, event->job_step->to, event->job_step->exit_code, event->time));
    return;
  }
}

void JobManager::offer_elements(OpenJob& array) {
  const std::int64_t copies = array.array->may_start();
  if (copies == 0) {
    queue_.remove(array.id);
    return;
  }
  if (!queue_.set_copies(array.id, copies)) {
    queue_.add(array.id,
               {.priority = array.sized.priority, .number = array.sized.number, .group = array.group, .copies = copies},
               array.need);
    block_or_release(array);
  }
}

void JobManager::element_ended(const ArrayPlace& place, JobState state, int exit_code) {
  OpenJob* const array = find(place.array);
  if (array == nullptr || !array->array) return;
  array->array->end(place.index, state, exit_code);
  if (!array->has_ended) offer_elements(*array);
  if (on_change) on_change(place.array);
  end_array_if_over(place.array);
}

void JobManager::end_array_if_over(const base::JobId& id) {
  OpenJob* const job = find(id);
  if (job == nullptr || job->has_ended || !job->array || !job->array->is_over()) return;
  const ArrayEnd end = job->array->outcome();
  // The state table allows only a stopping job to end as killed.
  if (end.state == JobState::kKilled && job->array->state == JobState::kRunning) {
    record(id, array_step(*job->array, id, JobTrigger::kStop, end.reason), {});
  }
  end_waiting(id, end.state, end.exit_code, end.reason, [](const base::Status&) {});
}

void JobManager::kill_array(const base::JobId& id, StopCause cause, const std::string& reason, bool at_once,
                            std::function<void(base::Status)> done) {
  OpenJob& job = *find(id);
  ArrayState& array = *job.array;
  const int exit_code = cause == StopCause::kTimeout ? model::kTimedOut : model::kTerminated;
  if (array.state == JobState::kQueued) {
    return end_waiting(id, JobState::kKilled, exit_code, reason + " while it waited for slots", std::move(done));
  }
  queue_.remove(id);
  if (!array.is_stopping()) {
    array.stop(exit_code, reason);
    record(id, array_step(array, id, JobTrigger::kStop, reason), {});
  }
  for (const auto& [index, element] : std::map(array.running())) {
    OpenJob* const each = find(element);
    if (each == nullptr || each->running == nullptr) continue;
    each->running->stop(cause, reason);
    if (at_once) each->running->stop(cause, reason);
  }
  done(base::ok_status());
  end_array_if_over(id);
}

void JobManager::kill_unstarted(const base::JobId& array, int index, std::function<void(base::Status)> done) {
  OpenJob* const job = find(array);
  if (job == nullptr || job->has_ended || !job->array) return done(not_open(array));
  if (!job->array->is_waiting(index) || job->array->is_stopping()) {
    return done(base::error(Code::kAborted, "element {} of job {} starts or ends just now: try again in a moment",
                            index, array.str()));
  }
  const base::JobId id = base::JobId::random();
  const base::WallTime now = surroundings_.clock->wall();
  Batch batch = {job->array->new_element(array, index, id, now)};
  Batch end = end_without_ranks(id, 0, JobState::kKilled, model::kTerminated, "killed while it waited for slots", now);
  std::ranges::move(end, std::back_inserter(batch));
  batch.push_back(element_event({array, index}, JobState::kKilled, model::kTerminated, now));
  job->array->end(index, JobState::kKilled, model::kTerminated);
  offer_elements(*job);
  record(array, std::move(batch), [this, array, done = std::move(done)](const base::Status& status) {
    done(status);
    end_array_if_over(array);
  });
}

base::Status JobManager::load_elements(StoreReader& reader, const StoredJob& stored, OpenJob& job) {
  for (int first = 0;;) {
    MUSTER_ASSIGN_OR_RETURN(const auto page, reader.elements(stored.id, first, kLongestPage));
    if (page.empty()) break;
    for (const StoredElement& element : page) {
      if (!job.array->is_waiting(element.index)) {
        return base::data_loss("job {}: stored element {} is not one of the array", stored.id.str(), element.index);
      }
      if (model::is_final(element.state)) {
        job.array->end(element.index, element.state, element.exit_code);
      } else {
        job.array->start(element.index, element.id);
      }
    }
    first = page.back().index + 1;
  }
  job.array->state = stored.state;
  if (stored.state == JobState::kStopping) {
    job.array->stop(stored.reason == kDeadlinePassed ? model::kTimedOut : model::kTerminated, stored.reason);
  }
  return base::ok_status();
}

std::string JobManager::array_reason(const OpenJob& job, const std::string& why) {
  const ArrayState& array = *job.array;
  const auto count = [](std::int64_t elements) {
    return fmt::format("{} element{}", elements, elements == 1 ? "" : "s");
  };
  if (array.running().empty()) return why;
  const auto running = static_cast<std::int64_t>(array.running().size());
  const std::string runs = fmt::format("{} run{}", count(running), running == 1 ? "s" : "");
  if (array.waiting() == 0 || array.is_stopping()) return runs;
  return fmt::format("{}, {} wait{}{}", runs, count(array.waiting()), array.waiting() == 1 ? "s" : "",
                     why.empty() ? "" : ": " + why);
}

base::Status JobManager::check_running(const OpenJob& job) {
  if (job.array) {
    return base::failed_precondition("job {} is an array: name one element, as in {}", job.id.str(),
                                     model::element_name(job.id.str(), 0));
  }
  if (job.running != nullptr) return base::ok_status();
  return base::failed_precondition("job {} waits for slots: none of its ranks is running", job.id.str());
}

base::Status JobManager::signal_array(const OpenJob& job, int signo) {
  base::Status result = base::failed_precondition("job {}: none of its elements is running", job.id.str());
  bool is_any = false;
  for (const auto& [index, element] : job.array->running()) {
    OpenJob* const each = find(element);
    if (each == nullptr || each->running == nullptr) continue;
    const base::Status sent = each->running->signal_ranks(signo);
    is_any = is_any || sent.ok();
    if (!sent.ok() && sent.code() != Code::kFailedPrecondition) return sent;
  }
  return is_any ? base::ok_status() : result;
}

void JobManager::add_array_variables(const ArrayPlace& place, model::JobSpec& job) {
  const auto set = [&](std::string_view name, const std::string& value) {
    const std::string prefix = fmt::format("{}=", name);
    std::erase_if(job.environment.named, [&](const std::string& each) { return each.starts_with(prefix); });
    job.environment.named.push_back(prefix + value);
  };
  set("MUSTER_ARRAY_INDEX", fmt::format("{}", place.index));
  set("MUSTER_ARRAY_JOB_ID", place.array.str());
}

}  // namespace muster::launcherd::daemon
