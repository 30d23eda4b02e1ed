#include "cli/run/job_tracing.h"

#include <utility>

#include "base/host_name.h"
#include "launcherd/trace/otlp_options.h"

namespace muster::cli::inline run {
JobTracing::JobTracing(std::unique_ptr<launcherd::TraceExporter> exporter, launcherd::TracedJob job)
    : exporter_(std::move(exporter)), trace_(std::move(job), exporter_.get()) {}

std::unique_ptr<JobTracing> JobTracing::start(const base::Environment& environment, const std::string& job_id,
                                              const std::string& name, const base::Clock& clock,
                                              launcherd::NoticeWriter& notices) {
  const auto warn = [&notices](const std::string& line) { notices.line(line); };
  launcherd::OtlpSettings settings = launcherd::read_otlp(environment, "hvdrun");
  for (const std::string& warning : settings.warnings) warn(warning);
  if (!settings.options) return nullptr;
  auto exporter = launcherd::TraceExporter::start(*std::move(settings.options),
                                                  {.host = base::own_host_name(), .version = MUSTER_VERSION}, warn);
  if (!exporter.ok()) {
    warn("no trace is sent: " + exporter.status().message());
    return nullptr;
  }
  launcherd::TracedJob job{.id = job_id, .name = name, .submitted = clock.wall()};
  auto parent = model::inherited_trace(environment);
  if (parent.ok()) {
    job.parent = *std::move(parent);
  } else {
    warn("the job begins a trace of its own: " + parent.status().message());
  }
  return std::unique_ptr<JobTracing>(new JobTracing(*std::move(exporter), std::move(job)));
}

JobTracing::~JobTracing() {
  if (record_ != nullptr) record_->unwatch(watcher_);
}

void JobTracing::watch(launcherd::JobRecord& record) {
  const auto watcher = record.watch(
      0, [this](const v1::Event& event) { trace_.add(event); }, [] {});
  if (!watcher.ok()) return;  // only if the record has dropped its first events
  record_ = &record;
  watcher_ = *watcher;
}

}  // namespace muster::cli::run
