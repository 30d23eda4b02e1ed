// Sends the trace of hvdrun's own job, if the standard variables of OpenTelemetry ask for it.
// Owner: hvdrun's main, which destroys it after the job. The destructor waits at most TraceExporter::kFlushTime.
// Thread: loop thread, or main thread while the loop does not run.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/env.h"
#include "launcherd/output/terminal.h"
#include "launcherd/run/job_record.h"
#include "launcherd/trace/job_trace.h"
#include "launcherd/trace/trace_exporter.h"

namespace muster::cli::inline run {

class JobTracing {
 public:
  // Borrows `notices`, which gets the warnings. Returns nullptr if no trace is sent.
  static std::unique_ptr<JobTracing> start(const base::Environment& environment, const std::string& job_id,
                                           const std::string& name, const base::Clock& clock,
                                           launcherd::NoticeWriter& notices);

  ~JobTracing();
  JobTracing(const JobTracing&) = delete;
  JobTracing& operator=(const JobTracing&) = delete;

  const model::TraceContext& context() const { return trace_.context(); }
  // Sends the job's events from now on. Call it once. `record` must outlive this object.
  void watch(launcherd::JobRecord& record);

 private:
  JobTracing(std::unique_ptr<launcherd::TraceExporter> exporter, launcherd::TracedJob job);

  const std::unique_ptr<launcherd::TraceExporter> exporter_;
  launcherd::JobTrace trace_;
  launcherd::JobRecord* record_ = nullptr;  // nullptr if no record is watched
  std::uint64_t watcher_ = 0;               // its number in the record
};

}  // namespace muster::cli::run
