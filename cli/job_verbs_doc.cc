// What there is to say about the verbs on running jobs, and their options.
#include "cli/flag_row.h"
#include "cli/job_verbs.h"

namespace muster::cli {
namespace {

FlagTable table_of(std::vector<FlagRow> rows) {
  rows.push_back(toggle("help", {{"-h", "true"}, {"--help", "true"}}, "Print this text.").stands_alone());
  std::vector<Flag> flags;
  add_group(FlagGroup::kGeneral, std::move(rows), flags);
  return FlagTable(std::move(flags));
}

FlagRow json(std::string_view help) {
  return toggle("json", {{"--json", "true"}}, help).command_line_only();
}

const std::vector<GroupTitle> kGroups = {{FlagGroup::kGeneral, "Options"}};
constexpr std::string_view kWhich =
    "JOB is the beginning of a job's id; without it the only job is meant. Jobs are those that an hvdrun of yours runs "
    "on "
    "this host.";

}  // namespace

const CommandDoc& jobs_doc() {
  static const FlagTable kTable = table_of({json("One muster.v1.Job a line, without its ranks.")});
  static const CommandDoc kDoc = {
      .name = "muster jobs",
      .summary = "the jobs that run",
      .usage = "[options]",
      .description = "Lists the jobs that an hvdrun of yours runs on this host.",
      .groups = kGroups,
      .table = &kTable,
      .notes = "",
      .examples = {{"muster jobs", ""}, {"muster jobs --json | jq -r .id", ""}},
      .exit_codes = {{"0", ""}, {"2", "a mistake in the command line"}},
  };
  return kDoc;
}

const CommandDoc& status_doc() {
  static const FlagTable kTable = table_of({json("The muster.v1.Job.")});
  static const CommandDoc kDoc = {
      .name = "muster status",
      .summary = "a running job with its hosts and ranks",
      .usage = "[options] [JOB]",
      .description = kWhich,
      .groups = kGroups,
      .table = &kTable,
      .notes = "",
      .examples = {{"muster status", ""}, {"muster status k7 --json", ""}},
      .exit_codes = {{"0", ""},
                     {"1", "the launcher did not answer"},
                     {"2", "a mistake in the command line, or no such job"}},
  };
  return kDoc;
}

const CommandDoc& kill_doc() {
  static const FlagTable kTable = table_of(
      {option("signal", {"-s", "--signal"}, "NAME", "Send this signal to all ranks instead, as USR1 or 10, and go on.")
           .command_line_only(),
       toggle("now", {{"--now", "true"}}, "SIGKILL at once, without the grace time.").command_line_only()});
  static const CommandDoc kDoc = {
      .name = "muster kill",
      .summary = "end running jobs",
      .usage = "[options] JOB...",
      .description =
          "Ends jobs as SIGTERM to their hvdrun does: SIGTERM to all ranks, SIGKILL after the job's --kill-grace, "
          "nothing "
          "left behind; then waits for the end. Each JOB is the beginning of an id; muster jobs lists them.",
      .groups = kGroups,
      .table = &kTable,
      .notes = "",
      .examples = {{"muster kill k7", ""}, {"muster kill --signal USR1 k7", "the ranks get it and run on"}},
      .exit_codes = {{"0", "the jobs have ended"},
                     {"1", "a launcher did not answer"},
                     {"2", "a mistake in the command line, or no such job: nothing was sent"}},
  };
  return kDoc;
}

const CommandDoc& events_doc() {
  static const FlagTable kTable = table_of(
      {toggle("follow", {{"-f", "true"}, {"--follow", "true"}}, "Go on until the job ends.").command_line_only(),
       json("One muster.v1.Event a line, as --json-events of hvdrun.")});
  static const CommandDoc kDoc = {
      .name = "muster events",
      .summary = "what has happened to a running job",
      .usage = "[options] [JOB]",
      .description = kWhich,
      .groups = kGroups,
      .table = &kTable,
      .notes = "",
      .examples = {{"muster events", ""}, {"muster events -f k7", ""}},
      .exit_codes = {{"0", ""},
                     {"1", "the launcher did not answer"},
                     {"2", "a mistake in the command line, or no such job"}},
  };
  return kDoc;
}

}  // namespace muster::cli
