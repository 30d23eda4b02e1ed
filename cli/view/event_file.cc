#include "cli/view/event_file.h"

#include <fcntl.h>

#include <cerrno>

#include "launcherd/run/job_record.h"
#include "proto/event_json.h"

namespace muster::cli::inline view {

base::Result<std::unique_ptr<EventFile>> EventFile::open(const std::string& path, const std::string& job_id,
                                                         const model::Placement& placement, const base::Clock& clock,
                                                         launcherd::JobObserver* next) {
  base::UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!fd.valid()) return base::errno_error(errno, fmt::format("--json-events: open {}", path));
  std::unique_ptr<EventFile> file(new EventFile(std::move(fd), path, job_id, clock, next));
  file->on_event(model::JobStarting{job_id, placement});
  return file;
}

void EventFile::on_progress(int up, int total, const std::vector<std::string>& waiting) {
  next_->on_progress(up, total, waiting);
}

void EventFile::on_event(const model::JobEvent& event) {
  next_->on_event(event);
  if (!fd_.valid()) return;
  const std::string line = proto::event_line(event, ++sequence_, clock_.wall());
  const base::Status written = base::write_all_blocking(fd_.get(), line.data(), line.size());
  if (written.ok()) return;
  fd_.reset();
  next_->on_warning(fmt::format("--json-events: {}: {}; no more events are written", path_, written.message()));
}

void EventFile::on_finished(const launcherd::JobOutcome& outcome) {
  on_event(launcherd::ended_event(job_id_, outcome));
  next_->on_finished(outcome);
}

}  // namespace muster::cli::view
