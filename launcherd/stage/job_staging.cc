#include "launcherd/stage/job_staging.h"

#include <utility>

#include "base/file.h"

namespace muster::launcherd::inline stage {

JobStaging::JobStaging(base::Loop& loop, Plan plan, Staging::Events events)
    : loop_(loop), plan_(std::move(plan)), events_(std::move(events)) {}

void JobStaging::start() {
  if (plan_.paths.empty()) return stage_environment();
  Staging::Events events = events_;
  if (!plan_.environment.empty()) {
    // The Staging is calling, so destroy it later.
    events.done = [this](const base::Status& status) {
      if (!status.ok()) return events_.done(status);
      loop_.post(gate_.wrap([this] {
        files_.reset();
        stage_environment();
      }));
    };
  }
  files_ =
      std::make_unique<Staging>(loop_, plan_.paths, plan_.hosts, plan_.token, plan_.never_staged, std::move(events));
  files_->start();
}

void JobStaging::stage_environment() {
  if (plan_.environment.empty()) return events_.done(base::ok_status());
  std::string cache = plan_.cache;
  if (cache.empty()) {
    const auto home = base::home_directory();
    if (!home.ok()) return events_.done(home.status().with_context("--stage-env"));
    cache = *home + "/.cache/muster/envs";
  }
  environment_ =
      std::make_unique<EnvStaging>(loop_, EnvStaging::Source{plan_.environment, plan_.never_staged, std::move(cache)},
                                   plan_.hosts, plan_.token, events_);
  environment_->start();
}

void JobStaging::answered(int agent, const v1::StageAnswer& answer) {
  if (files_ != nullptr) return files_->answered(agent, answer);
  if (environment_ != nullptr) environment_->answered(agent, answer);
}

std::optional<v1::LaunchEnvironment> JobStaging::environment() const {
  if (environment_ == nullptr) return std::nullopt;
  return environment_->environment();
}

}  // namespace muster::launcherd::stage
