#include "launcherd/trace/job_trace.h"

#include <utility>

#include <fmt/format.h>

namespace muster::launcherd::inline trace {
namespace {

// Returns the names that OpenTelemetry has, and ours with a prefix.
SpanAttributes exported(const SpanAttributes& attributes) {
  SpanAttributes result;
  for (const auto& [name, value] : attributes)
    result.emplace_back(name == "pid" ? "process.pid" : "muster." + name, value);
  return result;
}

model::TraceContext context_of_job(const TracedJob& job, const TraceSampling& sampling) {
  model::TraceContext context = model::trace_of_job(job.parent, job.id, job.submitted);
  context.is_sampled = sampling.is_sampled(job.parent, context);
  return context;
}

// Returns a name that no other span of the job has, before and after a restart of launcherd.
std::string unique_name(const JobSpan& span) {
  if (span.rank >= 0) return model::rank_span_name(span.generation, span.rank);
  return fmt::format("{} {} {}", span.host.empty() ? "phase" : "host " + span.host, span.name, span.begin);
}

std::string shown_name(const JobSpan& span) {
  if (span.rank >= 0) return span.name;
  if (span.host.empty()) return "job " + span.name;
  return fmt::format("host {}", span.name == "starting" ? "log-in" : span.name);
}

}  // namespace

JobTrace::JobTrace(TracedJob job, TraceExporter* exporter)
    : job_(std::move(job)), exporter_(exporter), context_(context_of_job(job_, exporter->sampling())) {}

void JobTrace::add(const v1::Event& event) {
  if (is_over()) return;
  spans_.add(event);
  collect_instants();
  const auto ended = spans_.take_spans();
  if (!context_.is_sampled) return;
  for (const JobSpan& span : ended) send(span);
  if (is_over()) send_job();
}

void JobTrace::replay(const v1::Event& event) {
  if (is_over()) return;
  spans_.add(event);
  collect_instants();
  spans_.take_spans();
}

void JobTrace::collect_instants() {
  for (JobInstant& instant : spans_.take_instants()) {
    if (events_.size() == kMostEvents) {
      ++dropped_events_;
      continue;
    }
    SpanEvent& event = events_.emplace_back();
    event.name = std::move(instant.name);
    event.time = instant.time;
    event.attributes = exported(instant.attributes);
    if (!instant.host.empty()) event.attributes.emplace_back("muster.host", std::move(instant.host));
  }
}

void JobTrace::send(const JobSpan& span) {
  TraceSpan sent{.context = model::trace_within(context_, unique_name(span)),
                 .parent = context_.span_id,
                 .name = shown_name(span),
                 .begin = span.begin,
                 .end = span.end,
                 .attributes = exported(span.attributes)};
  sent.attributes.emplace_back("muster.job.id", job_.id);
  if (!span.host.empty()) sent.attributes.emplace_back("muster.host", span.host);
  if (span.rank >= 0) sent.attributes.emplace_back("muster.rank", std::int64_t{span.rank});
  sent.error = span.error;
  exporter_->add(std::move(sent));
}

void JobTrace::send_job() {
  TraceSpan sent{.context = context_,
                 .name = "job",
                 .begin = spans_.first(),
                 .end = spans_.last(),
                 .events = events_,
                 .dropped_events = dropped_events_};
  if (job_.parent) sent.parent = job_.parent->span_id;
  sent.attributes = {{"muster.job.id", job_.id},
                     {"muster.job.ranks", std::int64_t{spans_.size()}},
                     {"muster.job.hosts", static_cast<std::int64_t>(spans_.hosts().size())},
                     {"muster.generation", std::int64_t{spans_.generation()}},
                     {"muster.exit_code", std::int64_t{spans_.end()->exit_code}}};
  if (!job_.array.empty()) {
    sent.attributes.emplace_back("muster.array.id", job_.array);
    sent.attributes.emplace_back("muster.array.index", std::int64_t{job_.index});
  }
  if (!job_.name.empty()) sent.attributes.emplace_back("muster.job.name", job_.name);
  if (spans_.end()->exit_code != 0) {
    sent.error =
        spans_.end()->reason.empty() ? fmt::format("exit code {}", spans_.end()->exit_code) : spans_.end()->reason;
  }
  exporter_->add(std::move(sent));
}

void JobTraces::begin(TracedJob job) {
  std::string id = job.id;
  jobs_.try_emplace(std::move(id), std::move(job), exporter_);
}

void JobTraces::add(std::string_view job, const v1::Event& event) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return;
  found->second.add(event);
  if (found->second.is_over()) jobs_.erase(found);
}

void JobTraces::replay(std::string_view job, const v1::Event& event) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return;
  found->second.replay(event);
  if (found->second.is_over()) jobs_.erase(found);
}

std::optional<model::TraceContext> JobTraces::context_of(std::string_view job) const {
  const auto found = jobs_.find(job);
  return found == jobs_.end() ? std::nullopt : std::optional(found->second.context());
}

std::optional<model::TraceContext> JobTraces::parent_of(std::string_view job) const {
  const auto found = jobs_.find(job);
  return found == jobs_.end() ? std::nullopt : found->second.parent();
}

}  // namespace muster::launcherd::trace
