// The options and the help text of `muster report`.
#include "cli/verbs/job_report.h"
#include "cli/verbs/verb.h"

namespace muster::cli::inline verbs {

const CommandDoc& job_report_doc() {
  static const FlagTable kTable = verb_table(
      with_launcher_rows(
          {option("output", {"-o", "--output"}, "FILE", "Write the page to this file. Without it, to standard output.")
               .completes(Completes::kFile)
               .command_line_only(),
           option("tensorboard", {"--tensorboard"}, "DIR",
                  "Write no page, but a file for TensorBoard in this folder; for several jobs, in DIR/JOB.")
               .completes(Completes::kDirectory)
               .command_line_only()}),
      {{.completes = Completes::kAnyJob, .repeats = true}});
  static const CommandDoc kDoc = {
      .name = "muster report",
      .summary = "a page about jobs, with time lines and scaling",
      .usage = "[options] [JOB...]",
      .description =
          "Writes an HTML page for a browser. It needs no other file and runs no script. For each job it has a time "
          "line: "
          "when hosts started, when each rank ran, and how it ended. Above 256 ranks there is one line for each "
          "host.\n\n"
          "With several jobs the page also shows how run time and efficiency depend on the number of ranks. Give it "
          "jobs "
          "that do the same work. Only jobs that ended with exit code 0 in one run are compared.\n\n"
          "With --tensorboard it writes what launcherd keeps of the job as scalars: about the last hour of steps and "
          "bytes of output a second, and of the hosts' load, while the job runs. Afterwards only its events are left. "
          "hvdrun --tensorboard writes the file of its own job.\n\n"
          "JOB is the beginning of a job's id, or a job's name. Without it, the report is about the only job, or the "
          "newest one.",
      .groups = {{FlagGroup::kGeneral, "Options"}},
      .table = &kTable,
      .notes = "",
      .examples = {{"muster report -o job.html", "the only job, or the newest one"},
                   {"muster report k7 -o k7.html", "job k7"},
                   {"muster report k7 m2 p9 -o scaling.html", "the same program with 2, 4 and 8 ranks"},
                   {"muster report k7 --tensorboard runs/k7", "scalars for TensorBoard, while the job runs"}},
      .exit_codes = {{"0", "the page or the file was written"},
                     {"1", "the launcher did not answer"},
                     {"2", "a mistake in the command line, or no such job"},
                     {"125", "the page or the file could not be written"}},
  };
  return kDoc;
}

}  // namespace muster::cli::verbs
