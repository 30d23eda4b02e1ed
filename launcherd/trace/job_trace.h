// JobTrace sends one job as a trace: a span of the job, and within it the spans of its phases, hosts and ranks, each
// as soon as it has ended. JobTraces holds the traces of all jobs of a launcherd.
//
// Owner: hvdrun's main; for JobTraces Daemon.
// Thread: loop thread only.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "launcherd/trace/job_spans.h"
#include "launcherd/trace/trace_exporter.h"
#include "model/trace_context.h"

namespace muster::launcherd::inline trace {

struct TracedJob {
  std::string id{};
  std::string name{};  // for people; may be empty
  base::WallTime submitted{};
  std::optional<model::TraceContext> parent{};  // the span from which it was submitted
  std::string array{};                          // id of its array; empty if it is no element
  int index = 0;                                // in the array
};

class JobTrace {
 public:
  static constexpr std::size_t kMostEvents = 128;  // of the job's span; later ones are counted

  // `exporter` is borrowed.
  JobTrace(TracedJob job, TraceExporter* exporter);

  const std::optional<model::TraceContext>& parent() const { return job_.parent; }
  // The job's span. The program's spans join it by rank (model::trace_variables).
  const model::TraceContext& context() const { return context_; }

  // Call it for each event of the job, in order. Sends what has ended.
  void add(const v1::Event& event);
  // The same for an event of an earlier launcherd, which has sent what ended then.
  void replay(const v1::Event& event);
  // Returns true after the job's end. Then nothing more is sent.
  bool is_over() const { return spans_.end().has_value(); }

 private:
  void collect_instants();
  void send(const JobSpan& span);
  void send_job();

  const TracedJob job_;
  TraceExporter* const exporter_;
  const model::TraceContext context_;
  JobSpans spans_;
  std::vector<SpanEvent> events_;
  std::size_t dropped_events_ = 0;
};

class JobTraces {
 public:
  // `exporter` is borrowed.
  explicit JobTraces(TraceExporter* exporter) : exporter_(exporter) {}

  // Begins the trace of a job, or does nothing if it has begun.
  void begin(TracedJob job);
  // Both do nothing for a job whose trace has not begun. They forget a job that has ended.
  void add(std::string_view job, const v1::Event& event);
  void replay(std::string_view job, const v1::Event& event);
  // nullopt if the trace of the job has not begun.
  std::optional<model::TraceContext> context_of(std::string_view job) const;
  // The span from which the job was submitted. nullopt if there is none.
  std::optional<model::TraceContext> parent_of(std::string_view job) const;

 private:
  TraceExporter* const exporter_;
  std::map<std::string, JobTrace, std::less<>> jobs_;
};

}  // namespace muster::launcherd::trace
