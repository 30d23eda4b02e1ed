// The part of JobManager that runs the commands of --notify. The store remembers which of them must still run, so that
// the next launcherd runs those that this one has not finished.
#include <utility>

#include "launcherd/daemon/job_manager.h"
#include "launcherd/daemon/job_view.h"
#include "proto/stored_event.h"

namespace muster::launcherd::inline daemon {
namespace {

struct NotifyPage {
  std::vector<std::pair<StoredJob, std::string>> jobs{};  // with their commands
};

base::Result<NotifyPage> read_page(StoreReader& reader, std::int64_t above) {
  NotifyPage page;
  MUSTER_ASSIGN_OR_RETURN(auto jobs, reader.to_notify(above, kLongestPage));
  for (StoredJob& job : jobs) {
    const auto spec = stored_spec(reader, job.id);
    page.jobs.emplace_back(std::move(job), spec.ok() ? spec->request().notify() : std::string());
  }
  return page;
}

}  // namespace

void JobManager::notify_of_page(std::int64_t above) {
  store_->read<NotifyPage>([above](StoreReader& reader) { return read_page(reader, above); },
                           gate_.wrap([this](const base::Result<NotifyPage>& page) {
                             if (!page.ok()) {
                               surroundings_.on_line("cannot find the jobs whose --notify commands must still run: " +
                                                     page.status().message());
                               return;
                             }
                             for (const auto& [job, command] : page->jobs) {
                               run_command({job.id, job.state, job.exit_code.value_or(0), command});
                             }
                             if (page->jobs.size() == kLongestPage) notify_of_page(page->jobs.back().first.number);
                           }));
}

void JobManager::notify(const base::JobId& id, model::JobState state, int exit_code) {
  if (is_leaving_) return;  // the next launcherd runs it
  store_->read<v1::StoredSpec>([id](StoreReader& reader) { return stored_spec(reader, id); },
                               gate_.wrap([this, id, state, exit_code](const base::Result<v1::StoredSpec>& spec) {
                                 run_command({id, state, exit_code, spec.ok() ? spec->request().notify() : ""});
                               }));
}

void JobManager::run_command(Notification notification) {
  if (is_leaving_) return;
  const base::JobId id = notification.job;
  if (notification.command.empty()) return command_ended(id, base::data_loss("its stored spec is corrupt"));
  notifier_.run(std::move(notification), [this, id](const base::Status& status) { command_ended(id, status); });
}

void JobManager::command_ended(const base::JobId& id, const base::Status& status) {
  Batch batch = {NotifyDone{id}};
  if (!status.ok()) {
    surroundings_.on_line(fmt::format("job {}: --notify: {}", id.str(), status.message()));
    const base::WallTime now = surroundings_.clock->wall();
    batch.push_back(
        NewEvent{.job = id,
                 .time = now,
                 .message = proto::stored_event(model::NotifyFailed{stored_reason(status.message())}, now)});
  }
  store_->append(std::move(batch), gate_.wrap([this, id](const base::Status& stored) {
    // A job that was removed needs no record.
    if (!stored.ok() && stored.code() != base::Code::kNotFound) {
      surroundings_.on_line(
          fmt::format("job {}: the end of its --notify command could not be stored, so the next "
                      "launcherd runs it again: {}",
                      id.str(), stored.message()));
    }
    if (on_change) on_change(id);
  }));
}

}  // namespace muster::launcherd::daemon
