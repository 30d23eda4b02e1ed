// The options and the help texts of the verbs on existing jobs.
#include "cli/verbs/job_verbs.h"
#include "cli/verbs/verb.h"

namespace muster::cli::inline verbs {
namespace {

const std::vector<GroupTitle> kGroups = {{FlagGroup::kGeneral, "Options"}};
constexpr std::string_view kWhich =
    "JOB is the beginning of a job's id, or its name. Without JOB, the only job that has not ended is meant; if all "
    "have ended, the newest. Jobs are those that an hvdrun of yours runs on this host, and those of launcherd.";

}  // namespace

const CommandDoc& jobs_doc() {
  static const FlagTable kTable = verb_table(with_launcher_rows(
      {toggle("all", {{"-a", "true"}, {"--all", "true"}}, "Also launcherd's jobs that have ended.").command_line_only(),
       option("filter", {"--filter"}, "TEXT",
              "Only launcherd's jobs that have all these words in their id, name, command, state, hosts or labels.")
           .command_line_only(),
       toggle("wide", {{"-w", "true"}, {"--wide", "true"}}, "Also who submitted each job, and what it waits for.")
           .command_line_only(),
       json_row("One muster.v1.Job a line, without its ranks.")}));
  static const CommandDoc kDoc = {
      .name = "muster jobs",
      .summary = "the jobs that run or wait",
      .usage = "[options]",
      .description =
          "Lists the jobs that an hvdrun of yours runs on this host. If there is a launcherd, its running and waiting "
          "jobs are listed, too. muster status shows what a job waits for.",
      .groups = kGroups,
      .table = &kTable,
      .notes = "",
      .examples = {{"muster jobs", "the jobs that run or wait"},
                   {"muster jobs --wide", "with users and reasons"},
                   {"muster jobs --all --filter 'failed n7'", "jobs that failed on n7"},
                   {"muster jobs --json | jq -r .id", "their ids, for a script"}},
      .exit_codes = {{"0", "the jobs were listed"},
                     {"1", "launcherd did not answer"},
                     {"2", "a mistake in the command line"}},
      .aliases = {"ps", "ls", "list"},
  };
  return kDoc;
}

const CommandDoc& status_doc() {
  static const FlagTable kTable = verb_table(with_launcher_rows({all_rows_row(), json_row("The muster.v1.Job.")}),
                                             {{.completes = Completes::kAnyJob}});
  static const CommandDoc kDoc = {
      .name = "muster status",
      .summary = "a job with its hosts and ranks, or the reason it waits",
      .usage = "[options] [JOB]",
      .description = kWhich,
      .groups = kGroups,
      .table = &kTable,
      .notes = "",
      .examples = {{"muster status", "the only job, or the newest one"},
                   {"muster status k7 --all", "also on a terminal, all hosts and ranks of a large job"},
                   {"muster status k7 --json", "job k7, for a script"}},
      .exit_codes = {{"0", "the job was shown"},
                     {"1", "the launcher did not answer"},
                     {"2", "a mistake in the command line, or no such job"}},
      .aliases = {"describe", "show"},
  };
  return kDoc;
}

const CommandDoc& kill_doc() {
  static const FlagTable kTable = verb_table(
      with_launcher_rows(
          {option("signal", {"-s", "--signal"}, "NAME",
                  "Only send this signal to all ranks, such as USR1 or 10; the job goes on.")
               .offers({"HUP", "INT", "QUIT", "USR1", "USR2", "TERM", "CONT", "STOP", "KILL"})
               .command_line_only(),
           toggle("now", {{"--now", "true"}}, "SIGKILL at once, without the grace time.").command_line_only(),
           json_row("One muster.v1.Job a line: the ended job. With --signal, the job before it.")}),
      {{.completes = Completes::kJob, .repeats = true}});
  static const CommandDoc kDoc = {
      .name = "muster kill",
      .summary = "end jobs",
      .usage = "[options] JOB...",
      .description =
          "Ends jobs as SIGTERM to their hvdrun does: all ranks get SIGTERM, then SIGKILL after the job's "
          "--kill-grace, and no process is left behind. The command waits for the end. Each JOB is the beginning of an "
          "id, or a name; muster jobs lists them.",
      .groups = kGroups,
      .table = &kTable,
      .notes = "",
      .examples = {{"muster kill k7", "end job k7"},
                   {"muster kill --signal USR1 k7", "the ranks get the signal and run on"}},
      .exit_codes = {{"0", "the jobs have ended"},
                     {"1", "a launcher did not answer"},
                     {"2", "a mistake in the command line, or no such job: nothing was sent"}},
      .aliases = {"cancel", "stop"},
  };
  return kDoc;
}

const CommandDoc& events_doc() {
  static const FlagTable kTable = verb_table(
      with_launcher_rows({toggle("follow", {{"-f", "true"}, {"--follow", "true"}}, "Follow the job until it ends.")
                              .command_line_only(),
                          json_row("One muster.v1.Event a line, as --json-events of hvdrun.")}),
      {{.completes = Completes::kAnyJob}});
  static const CommandDoc kDoc = {
      .name = "muster events",
      .summary = "the events of a job",
      .usage = "[options] [JOB]",
      .description = kWhich,
      .groups = kGroups,
      .table = &kTable,
      .notes = "",
      .examples = {{"muster events", "the only job, or the newest one"},
                   {"muster events -f k7", "follow job k7 to its end"}},
      .exit_codes = {{"0", "the events were printed"},
                     {"1", "the launcher did not answer"},
                     {"2", "a mistake in the command line, or no such job"}},
  };
  return kDoc;
}

}  // namespace muster::cli::verbs
