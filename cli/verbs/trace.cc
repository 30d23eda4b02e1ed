#include "cli/verbs/trace.h"

#include "cli/verbs/follow_job.h"
#include "cli/verbs/found_jobs.h"
#include "cli/verbs/job_verbs.h"
#include "cli/verbs/trace_events.h"
#include "cli/verbs/verb.h"
#include "launcherd/service/api_client.h"

namespace muster::cli::inline verbs {

const CommandDoc& trace_doc() {
  static const FlagTable kTable = verb_table(with_launcher_rows({}), {{.completes = Completes::kAnyJob}});
  static const CommandDoc kDoc = {
      .name = "muster trace",
      .summary = "a job as a trace for Perfetto",
      .usage = "[options] [JOB]",
      .description =
          "Prints the job as a trace in the format of Chrome's trace viewer. Open it at ui.perfetto.dev, or in "
          "chrome://tracing. The launcher, the hosts and the ranks are on one axis of time: the phases of the job, "
          "when "
          "each host was up, and when each rank ran.\n\n"
          "JOB is the beginning of a job's id, or its name. Without JOB, the only job that has not ended is meant; if "
          "all have ended, the newest. A job that has not ended is shown up to now.",
      .groups = {{FlagGroup::kGeneral, "Options"}},
      .table = &kTable,
      .notes = "",
      .examples = {{"muster trace k7 > k7.json", "a file for Perfetto"}},
      .exit_codes = {{"0", "the trace was printed"},
                     {"1", "the launcher did not answer"},
                     {"2", "a mistake in the command line, or no such job"}},
  };
  return kDoc;
}

int run_trace(const std::string& verb, const std::vector<std::string>& arguments) {
  const VerbCall call(verb, trace_doc(), arguments);
  if (call.exit_code()) return *call.exit_code();
  const auto found = one_job_or_newest(call);
  if (!found.ok()) return call.fail(found.status());
  launcherd::ApiClient client(found->launcher);
  const auto job = ask_job(client, *found, kNoRanks);
  if (!job.ok()) return job_not_answered(call, *found, job.status());
  TraceEvents trace;
  if (job->last_event() > 0) {
    Reconnecting reconnecting([&](const std::string& line) { call.fail(line); }, -1);
    const auto watched = watch_to_end(client, *found, 0, reconnecting, [&](const v1::Event& event) {
      trace.add(event);
      return event.sequence() < job->last_event();
    });
    if (!watched.ok()) return job_not_answered(call, *found, watched.status());
  }
  return call.print(trace.finish(*job));
}

}  // namespace muster::cli::verbs
