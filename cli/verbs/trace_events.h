// TraceEvents makes a trace of a job from its events, in the Trace Event Format of Chrome, which Perfetto opens. The
// launcher and each host are a process of the trace, and each rank is a thread of its host. All have one axis of time,
// which begins with the job's first event. launcherd/trace/job_spans finds the spans. Pure.
//
//   TraceEvents trace;
//   for (const v1::Event& event : events) trace.add(event);
//   const std::string document = trace.finish(job);
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "launcherd/trace/job_spans.h"
#include "proto/muster/v1/launcher.pb.h"

namespace muster::cli::inline verbs {

class TraceEvents {
 public:
  // Call it for each event of the job, in order.
  void add(const v1::Event& event) { spans_.add(event); }
  // Returns the document. What has not ended, ends with the last event and has "unfinished" in its arguments. Call it
  // once.
  std::string finish(const v1::Job& job);

 private:
  int process_of(const std::string& host) const;
  void add_span(const launcherd::JobSpan& span);
  void add_instant(const launcherd::JobInstant& instant);
  void name_process(int process, std::string_view name);
  void name_thread(int process, std::int64_t thread, std::string_view name);

  launcherd::JobSpans spans_;
  std::map<std::string, int> processes_;  // by host
  std::vector<std::string> entries_;
};

}  // namespace muster::cli::verbs
