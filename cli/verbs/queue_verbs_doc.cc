// The options and the help texts of hold, release, update and rerun.
#include "cli/verbs/queue_options.h"
#include "cli/verbs/queue_verbs.h"
#include "cli/verbs/verb.h"

namespace muster::cli::inline verbs {
namespace {

const std::vector<GroupTitle> kQueueGroups = {{FlagGroup::kGeneral, "Options"}};

}  // namespace

const CommandDoc& hold_doc() {
  static const FlagTable kTable =
      verb_table(with_launcher_rows({json_row("One muster.v1.Job a line: the job as it is now.")}),
                 {{.completes = Completes::kJob, .repeats = true}});
  static const CommandDoc kDoc = {
      .name = "muster hold",
      .summary = "keep waiting jobs of launcherd from starting",
      .usage = "[options] JOB...",
      .description =
          "A held job stays in launcherd's queue, also across restarts of launcherd, until muster release. Later jobs "
          "go before it, and no slots are reserved for it. Its --deadline still counts. Each JOB is the beginning of "
          "an id, or a name; muster jobs lists them. muster submit --hold submits a job that is held from the "
          "beginning.",
      .groups = kQueueGroups,
      .table = &kTable,
      .notes = "",
      .examples = {{"muster hold k7", "job k7 does not start"},
                   {"muster hold night-1 night-2", "two jobs, by their names"}},
      .exit_codes = {{"0", "the jobs are held"},
                     {"1", "launcherd did not answer"},
                     {"2", "a mistake in the command line, no such job, or a job that no longer waits"}},
  };
  return kDoc;
}

const CommandDoc& release_doc() {
  static const FlagTable kTable =
      verb_table(with_launcher_rows({json_row("One muster.v1.Job a line: the job as it is now.")}),
                 {{.completes = Completes::kJob, .repeats = true}});
  static const CommandDoc kDoc = {
      .name = "muster release",
      .summary = "let held jobs of launcherd start",
      .usage = "[options] JOB...",
      .description =
          "Ends the hold of muster hold or muster submit --hold. The job has its former place in the queue again, by "
          "its priority and its time of submission. Does nothing for a job that is not held. Each JOB is the beginning "
          "of an id, or a name.",
      .groups = kQueueGroups,
      .table = &kTable,
      .notes = "",
      .examples = {{"muster release k7", "job k7 may start"}},
      .exit_codes = {{"0", "the jobs are not held"},
                     {"1", "launcherd did not answer"},
                     {"2", "a mistake in the command line, or no such job"}},
  };
  return kDoc;
}

const CommandDoc& update_doc() {
  static const FlagTable kTable = verb_table(
      with_launcher_rows(
          {priority_row("The new priority. Jobs of higher priority start first."),
           deadline_row("The new deadline: in 2h, or at 2026-06-20T17:05:53Z."),
           toggle("no-deadline", {{"--no-deadline", "true"}}, "The job has no deadline.").command_line_only(),
           after_row("The jobs for which the job waits now, instead of those before: JOB, JOB:ok or "
                     "JOB:any. Repeatable."),
           toggle("no-after", {{"--no-after", "true"}}, "The job waits for no other job.").command_line_only(),
           json_row("One muster.v1.Job a line: the job as it is now.")}),
      {{.completes = Completes::kJob, .repeats = true}});
  static const CommandDoc kDoc = {
      .name = "muster update",
      .summary = "change the priority, the deadline or the dependencies of jobs",
      .usage = "[options] JOB...",
      .description =
          "Changes jobs of launcherd that have not ended. What is not given stays as it is. Only a waiting job can "
          "wait "
          "for other jobs, and jobs never wait for each other in a circle. Each JOB is the beginning of an id, or a "
          "name.",
      .groups = kQueueGroups,
      .table = &kTable,
      .notes = "",
      .examples = {{"muster update k7 --priority 5", "before jobs of lower priority"},
                   {"muster update k7 --deadline 2h", "job k7 is killed in two hours"},
                   {"muster update k7 --after m3:any", "after job m3 has ended, however it ends"}},
      .exit_codes = {{"0", "the jobs are changed"},
                     {"1", "launcherd did not answer"},
                     {"2", "a mistake in the command line, no such job, or a change that the job does not allow"}},
  };
  return kDoc;
}

const CommandDoc& rerun_doc() {
  static const FlagTable kTable =
      verb_table(with_launcher_rows({option("request-id", {"--request-id"}, "ID",
                                            "A name of your choice for this submission. Repeating the command with the "
                                            "same name makes no second job "
                                            "and prints the id of the first.")
                                         .command_line_only(),
                                     json_row("The muster.v1.SubmitResponse: the new id.")}),
                 {{.completes = Completes::kAnyJob}});
  static const CommandDoc kDoc = {
      .name = "muster rerun",
      .summary = "submit a job of launcherd once more; prints the new id",
      .usage = "[options] JOB",
      .description =
          "The new job has the command, the options, the name, the priority, the labels and the environment of JOB. "
          "JOB may run, wait or have ended; it stays as it is. launcherd keeps the environments of the last 256 jobs "
          "that have ended, in its memory only. After a restart of launcherd it refuses to rerun them. JOB is the "
          "beginning of an id, or a name.",
      .groups = kQueueGroups,
      .table = &kTable,
      .notes = "",
      .examples = {{"muster rerun k7", "the same job once more"},
                   {"job=$(muster rerun k7) && muster logs -f $job", "and follow the new one"}},
      .exit_codes = {{"0", "launcherd has the new job"},
                     {"1", "launcherd did not answer, or accepts no jobs now"},
                     {"2", "a mistake in the command line, no such job, or its environment is lost"}},
  };
  return kDoc;
}

}  // namespace muster::cli::verbs
