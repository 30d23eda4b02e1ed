// `muster wait`: waits for the end of a job and exits with the job's exit code.
#include "base/clock.h"
#include "cli/verbs/follow_job.h"
#include "cli/verbs/found_jobs.h"
#include "cli/verbs/job_verbs.h"
#include "cli/verbs/launcherd_verbs.h"
#include "cli/verbs/verb.h"
#include "proto/message_json.h"

namespace muster::cli::inline verbs {

int run_wait(const std::string& verb, const std::vector<std::string>& arguments) {
  const VerbCall call(verb, wait_doc(), arguments);
  if (call.exit_code()) return *call.exit_code();
  const auto job = one_job(call);
  if (!job.ok()) return call.fail(job.status());
  launcherd::ApiClient client(job->launcher);
  const auto now = ask_job(client, *job, kNoRanks);
  if (!now.ok()) return job_not_answered(call, *job, now.status());
  Reconnecting reconnecting([&](const std::string& line) { call.fail(line); }, -1);
  const auto ended = watch_to_end(client, *job, now->last_event(), reconnecting, [](const v1::Event&) { return true; });
  if (!ended.ok()) return job_not_answered(call, *job, ended.status());
  if (call.has("json")) {
    const v1::Job whole = job_at_end(*now, **ended, base::SystemClock().wall());
    if (const int printed = call.print(proto::message_line(whole)); printed != 0) return printed;
  }
  return (*ended)->exit_code;
}

}  // namespace muster::cli::verbs
