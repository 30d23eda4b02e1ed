// The part of JobManager that reports jobs as traces. A trace gets an event when the store has it, so that the trace
// shows nothing that a later launcherd does not know.
#include <utility>

#include "launcherd/daemon/job_manager.h"
#include "launcherd/daemon/job_view.h"
#include "proto/event_json.h"
#include "proto/stored_event.h"

namespace muster::launcherd::inline daemon {
namespace {

// Returns the variables that the job's submitter has sent.
base::Environment submitted_environment(const model::JobSpec& job) {
  base::Environment environment;
  for (const std::string& variable : job.environment.named) {
    const auto equals = variable.find('=');
    if (equals != std::string::npos) environment.set(variable.substr(0, equals), variable.substr(equals + 1));
  }
  return environment;
}

TracedJob traced_job(const base::JobId& id, const std::string& name, base::WallTime submitted) {
  return {.id = id.str(), .name = name, .submitted = submitted};
}

// An element has the parent of its array, before and after a restart of launcherd.
void set_element(const ArrayPlace& place, const JobTraces& traces, TracedJob& traced) {
  traced.array = place.array.str();
  traced.index = place.index;
  traced.parent = traces.parent_of(traced.array);
}

}  // namespace

void JobManager::trace_new(const JobAdmission::Admitted& job) {
  JobTraces* const traces = surroundings_.traces;
  if (traces == nullptr) return;
  TracedJob traced = traced_job(job.id, job.request.name(), job.submitted);
  auto parent = model::inherited_trace(submitted_environment(job.submission.job));
  if (parent.ok()) {
    traced.parent = *std::move(parent);
  } else {
    surroundings_.on_line(
        fmt::format("job {}: it begins a trace of its own: {}", job.id.str(), parent.status().message()));
  }
  traces->begin(std::move(traced));
  traces->add(job.id.str(),
              proto::make_event(model::JobStateChanged{model::JobState::kQueued, job.reason}, 1, job.submitted));
}

JobManager::TracedBatch JobManager::traced(const Batch& batch) const {
  TracedBatch spans;
  if (surroundings_.traces == nullptr) return spans;
  for (const Change& change : batch) {
    if (const auto* const event = std::get_if<NewEvent>(&change)) {
      spans.events.push_back({event->job, event->message});
    } else if (const auto* const group = std::get_if<NewEvents>(&change)) {
      for (const NewEvents::Event& each : group->events) spans.events.push_back({group->job, each.message});
    } else if (const auto* const job = std::get_if<NewJob>(&change); job != nullptr && job->element) {
      spans.elements.push_back(
          {.id = job->id, .name = job->name, .submitted = job->submitted, .element = job->element});
    }
  }
  return spans;
}

void JobManager::trace(const TracedBatch& batch) {
  JobTraces* const traces = surroundings_.traces;
  if (traces == nullptr) return;
  for (const NewJob& element : batch.elements) {
    TracedJob traced = traced_job(element.id, element.name, element.submitted);
    set_element(*element.element, *traces, traced);
    traces->begin(std::move(traced));
  }
  for (const TracedEvent& each : batch.events) {
    const auto event = proto::event_of_store(each.message, 0);
    if (event.ok()) traces->add(each.job.str(), *event);
  }
}

// A trace that cannot be read is missing, and the job goes on.
void JobManager::resume_trace(StoreReader& reader, const StoredJob& stored) {
  JobTraces* const traces = surroundings_.traces;
  if (traces == nullptr) return;
  TracedJob traced = traced_job(stored.id, stored.name, stored.submitted);
  bool is_array = false;
  if (stored.element) set_element(*stored.element, *traces, traced);
  if (!stored.element || !traces->context_of(traced.array)) {  // the records of its array may be corrupt
    const auto submission = stored_submission(reader, stored.element ? stored.element->array : stored.id);
    if (!submission.ok()) return;
    is_array = !stored.element && submission->array;
    auto parent = model::inherited_trace(submitted_environment(submission->job));
    if (parent.ok()) traced.parent = *std::move(parent);
  }
  traces->begin(std::move(traced));
  for (std::uint64_t after = 0;;) {
    const auto page = reader.events(stored.id, after, kLongestPage);
    if (!page.ok() || page->empty()) return;
    after = page->back().sequence;
    for (const StoredEvent& each : *page) {
      const auto event = proto::event_of_store(each.message, each.sequence);
      if (event.ok()) traces->replay(stored.id.str(), *event);
    }
    if (is_array) return;  // nearly all its events are those of elements, which have traces of their own
  }
}

}  // namespace muster::launcherd::daemon
