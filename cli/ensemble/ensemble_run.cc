#include "cli/ensemble/ensemble_run.h"

#include <utility>

#include "cli/verbs/found_jobs.h"
#include "cli/view/log_output.h"
#include "launcherd/output/sinks.h"

namespace muster::cli::inline ensemble {

EnsembleRun::EnsembleRun(launcherd::LauncherAddress launcher, std::string output, bool stops_at_failure, Events events)
    : launcher_(std::move(launcher)),
      output_(std::move(output)),
      stops_at_failure_(stops_at_failure),
      events_(std::move(events)),
      client_(launcher_) {}

void EnsembleRun::ended(const std::string& id) {
  const std::lock_guard lock(mutex_);
  ended_.push_back(id);
  changed_.notify_one();
}

void EnsembleRun::cancel() {
  {
    const std::lock_guard lock(mutex_);
    is_cancelled_ = true;
    changed_.notify_one();
  }
  client_.cancel();
}

std::string EnsembleRun::next_ended() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return is_cancelled_ || !ended_.empty(); });
  if (is_cancelled_) return {};
  std::string id = std::move(ended_.front());
  ended_.pop_front();
  return id;
}

base::Status EnsembleRun::run_blocking(const std::vector<std::pair<std::string, v1::SubmitRequest>>& jobs) {
  MUSTER_RETURN_IF_ERROR(submit_all(jobs));
  events_.on_progress(0, submitted_);
  while (!names_.empty()) {
    const std::string id = next_ended();
    if (id.empty()) return {base::Code::kCancelled, "the ensemble was stopped"};
    if (names_.contains(id)) MUSTER_RETURN_IF_ERROR(follow(id));
  }
  return base::ok_status();
}

base::Status EnsembleRun::submit_all(const std::vector<std::pair<std::string, v1::SubmitRequest>>& jobs) {
  for (const auto& [name, request] : jobs) {
    const auto answer = client_.submit(request, kPatience);
    if (!answer.ok()) return answer.status().with_context("job " + name);
    names_.emplace(answer->job_id(), name);
    ++submitted_;
  }
  return base::ok_status();
}

base::Status EnsembleRun::follow(const std::string& id) {
  const std::string name = names_.at(id);
  // Watch the job until its last event, because launcherd reports the end before it stores it.
  v1::WatchRequest end;
  end.set_job(id);
  MUSTER_RETURN_IF_ERROR(client_.watch(end, [](const v1::Event&) { return true; }));
  v1::GetJobRequest question;
  question.set_job(id);
  question.set_max_ranks(kNoRanks);
  MUSTER_ASSIGN_OR_RETURN(v1::Job job, client_.get_job(question, kPatience));
  EnsembleEnd ended{.name = name, .job = std::move(job), .output_problem = {}};
  const base::Status written = write_output(id, name, ended.job.size());
  if (!written.ok()) ended.output_problem = written.message();
  names_.erase(id);
  events_.on_end(ended);
  events_.on_progress(submitted_ - names_.size(), submitted_);
  if (stops_at_failure_ && !is_stopping_ && ended.job.exit_code() != 0) kill_the_rest();
  return base::ok_status();
}

base::Status EnsembleRun::write_output(const std::string& id, const std::string& name, int size) {
  MUSTER_ASSIGN_OR_RETURN(const auto files, launcherd::FileSink::create(output_ + "/" + name, size));
  std::string missing;
  LogOutput output(files.get(), nullptr, [&](const std::string& line) { missing = line; });
  v1::LogsRequest request;
  request.set_job(id);
  base::Status failed;
  const base::Status read = client_.logs(request, [&](const v1::LogChunk& chunk) {
    failed = output.show(chunk);
    return failed.ok();
  });
  MUSTER_RETURN_IF_ERROR(failed);
  MUSTER_RETURN_IF_ERROR(read);
  if (!missing.empty()) return {base::Code::kDataLoss, missing};
  return base::ok_status();
}

// Ends all other jobs. Waiting jobs end at once, and ended() is called for each.
void EnsembleRun::kill_the_rest() {
  is_stopping_ = true;
  for (const auto& [id, name] : names_) {
    v1::KillRequest request;
    request.set_job(id);
    // Ignore failure: launcherd refuses if the job has just ended. If launcherd is gone, the next request reports that.
    static_cast<void>(client_.kill(request, kPatience));
  }
}

}  // namespace muster::cli::ensemble
