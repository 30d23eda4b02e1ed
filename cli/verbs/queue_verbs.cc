// Runs hold, release, update and rerun. Each finds all its jobs first, so that a wrong name changes nothing.
#include "cli/verbs/queue_verbs.h"

#include <functional>

#include "base/ids.h"
#include "base/strings.h"
#include "cli/options/setting_reader.h"
#include "cli/verbs/found_jobs.h"
#include "cli/verbs/job_verbs.h"
#include "cli/verbs/queue_options.h"
#include "cli/verbs/verb.h"
#include "launcherd/service/api_client.h"
#include "proto/message_json.h"

namespace muster::cli::inline verbs {
namespace {

using launcherd::ApiClient;

constexpr std::size_t kRerunIdBytes = 16;

int refused(const VerbCall& call, const FoundJob& job, const base::Status& status) {
  if (status.code() != base::Code::kUnimplemented) return call.fail(status);
  return call.fail(
      fmt::format("job {}: a foreground hvdrun has no queue; muster submit gives jobs to launcherd", job.id));
}

// Does the same with each job that the words name.
int for_each_job(const VerbCall& call, const std::function<int(const FoundJob&)>& act) {
  if (call.exit_code()) return *call.exit_code();
  if (call.words().empty()) return call.fail("which job? muster jobs lists them");
  std::vector<FoundJob> jobs;
  for (const std::string& word : call.words()) {
    auto job = job_named(call, word);
    if (!job.ok()) return call.fail(job.status());
    jobs.push_back(*std::move(job));
  }
  int exit_code = 0;
  for (const FoundJob& job : jobs) {
    const int result = act(job);
    if (result != 0) exit_code = result;
  }
  return exit_code;
}

}  // namespace

int run_hold(const std::string& verb, const std::vector<std::string>& arguments) {
  const VerbCall call(verb, hold_doc(), arguments);
  return for_each_job(call, [&](const FoundJob& job) {
    v1::HoldRequest request;
    request.set_job(job.name_there());
    const base::Status held = ApiClient(job.launcher).hold(request, kPatience);
    return held.ok() ? print_job(call, job, fmt::format("job {} is held\n", job.id)) : refused(call, job, held);
  });
}

int run_release(const std::string& verb, const std::vector<std::string>& arguments) {
  const VerbCall call(verb, release_doc(), arguments);
  return for_each_job(call, [&](const FoundJob& job) {
    v1::ReleaseRequest request;
    request.set_job(job.name_there());
    const base::Status released = ApiClient(job.launcher).release(request, kPatience);
    return released.ok() ? print_job(call, job, fmt::format("job {} is released\n", job.id))
                         : refused(call, job, released);
  });
}

namespace {

// Reads the options of update, without the job.
base::Result<v1::UpdateJobRequest> read_update(const Settings& settings, base::WallTime now) {
  v1::UpdateJobRequest request;
  SettingReader read(settings);
  read.custom("priority", [&](const Setting& setting) -> base::Status {
    MUSTER_ASSIGN_OR_RETURN(const int priority, read_priority(setting));
    request.set_priority(priority);
    return base::ok_status();
  });
  read.custom("deadline", [&](const Setting& setting) -> base::Status {
    MUSTER_ASSIGN_OR_RETURN(*request.mutable_deadline(), read_deadline(setting, now));
    return base::ok_status();
  });
  read.custom("after", [&](const Setting& setting) -> base::Status {
    MUSTER_ASSIGN_OR_RETURN(*request.add_after(), read_after(setting));
    return base::ok_status();
  });
  bool no_deadline = false;
  bool no_after = false;
  read.toggle("no-deadline", no_deadline);
  read.toggle("no-after", no_after);
  request.set_no_deadline(no_deadline);
  request.set_no_after(no_after);
  MUSTER_RETURN_IF_ERROR(read.status());
  if (no_deadline && request.has_deadline())
    return base::invalid_argument("give --deadline or --no-deadline, not both");
  if (no_after && !request.after().empty()) return base::invalid_argument("give --after or --no-after, not both");
  if (!request.has_priority() && !request.has_deadline() && request.after().empty() && !no_deadline && !no_after) {
    return base::invalid_argument("nothing is to change: give --priority, --deadline or --after");
  }
  return request;
}

}  // namespace

int run_update(const std::string& verb, const std::vector<std::string>& arguments) {
  const VerbCall call(verb, update_doc(), arguments);
  if (call.exit_code()) return *call.exit_code();
  const auto read = read_update(call.settings(), base::SystemClock().wall());
  if (!read.ok()) return call.fail(read.status());
  return for_each_job(call, [&](const FoundJob& job) {
    v1::UpdateJobRequest request = *read;
    request.set_job(job.name_there());
    if (!job.launcher.is_foreground_job) {
      const base::Status named = name_by_ids(job.launcher, *request.mutable_after());
      if (!named.ok()) return call.fail(named.with_context("--after"));
    }
    const base::Status updated = ApiClient(job.launcher).update_job(request, kPatience);
    return updated.ok() ? print_job(call, job, fmt::format("job {} is changed\n", job.id))
                        : refused(call, job, updated);
  });
}

int run_rerun(const std::string& verb, const std::vector<std::string>& arguments) {
  const VerbCall call(verb, rerun_doc(), arguments);
  if (call.exit_code()) return *call.exit_code();
  if (call.words().size() > 1) return call.fail("name one job: each rerun has an id of its own");
  const Setting* const chosen = call.settings().find("request-id");
  const std::string request_id = chosen != nullptr ? chosen->value : base::random_hex(kRerunIdBytes);
  return for_each_job(call, [&](const FoundJob& job) {
    v1::RerunRequest request;
    request.set_job(job.name_there());
    request.set_request_id(request_id);
    const auto rerun = ApiClient(job.launcher).rerun(request, kPatience);
    if (rerun.ok()) return call.print(call.has("json") ? proto::message_line(*rerun) : rerun->job_id() + "\n");
    if (rerun.status().code() != base::Code::kDeadlineExceeded) return refused(call, job, rerun.status());
    return call.fail(base::error(rerun.status().code(),
                                 "{}; the job may have been submitted all the same: muster rerun --request-id {} {} "
                                 "makes no second one",
                                 rerun.status().message(), request_id, job.id));
  });
}

}  // namespace muster::cli::verbs
