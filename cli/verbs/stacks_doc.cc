// The options and the help text of `muster stacks`.
#include "cli/verbs/stacks.h"
#include "cli/verbs/verb.h"

namespace muster::cli::inline verbs {

const FlagTable& stacks_flags() {
  static const FlagTable kTable = verb_table(
      with_launcher_rows(
          {option("rank", {"-r", "--rank"}, "LIST", "Only these ranks, such as 0-3,7.").command_line_only(),
           toggle("native", {{"--native", "true"}},
                  "Also show the native functions of Python programs. This stops each process for some milliseconds.")
               .command_line_only(),
           toggle("explain", {{"--explain", "true"}},
                  "Name the ranks that hold the job up. Looks at all ranks several times, which takes some seconds.")
               .command_line_only(),
           toggle("tree", {{"--tree", "true"}}, "Show a tree of calls, in which ranks part where their stacks do.")
               .command_line_only(),
           option("samples", {"--samples"}, "N",
                  "Look N times, 0.1 s apart, and add up how often each stack was seen, over all ranks and looks.")
               .standard("1")
               .command_line_only(),
           option("svg", {"--svg"}, "FILE", "Also write a flame graph to this file, for a browser.")
               .completes(Completes::kFile)
               .command_line_only(),
           json_row("One muster.v1.ProcessStack a line; with --explain, one muster.v1.HangReport.")}),
      {{.completes = Completes::kJob}});
  return kTable;
}

const CommandDoc& stacks_doc() {
  static const CommandDoc kDoc = {
      .name = "muster stacks",
      .summary = "show what every rank of a running job is doing",
      .usage = "[options] [JOB]",
      .description =
          "Shows where the threads of each rank are, and of each process that the rank started. Run it first when a "
          "job hangs. Threads with equal stacks are shown once, with their ranks, hosts, and what they wait for in "
          "the kernel. The stack of the fewest ranks comes first: a rank that keeps the others waiting is often "
          "there.\n\n"
          "Of Python programs it shows functions, files and lines, read from the memory of the process. The process is "
          "not stopped. CPython 3.8 to 3.14 are known. Of other programs it shows native functions. For these, each "
          "process is stopped for some milliseconds, as by a debugger. Nothing must be installed on the hosts.\n\n"
          "The job is one that an hvdrun of yours runs on this host, or one of launcherd's. JOB is the beginning of "
          "the "
          "job's id; it is needed if there are several jobs. Kernel stacks are shown only for jobs of root.",
      .groups = {{FlagGroup::kGeneral, "Options"}},
      .table = &stacks_flags(),
      .notes = "",
      .examples = {{"muster stacks", "all ranks of the only job"},
                   {"muster stacks --explain", "which rank holds the others up, and where"},
                   {"muster stacks --tree", "where the ranks part"},
                   {"muster stacks --svg stacks.svg", "a picture of all ranks"},
                   {"muster stacks --samples 50 --svg stacks.svg", "where the ranks spend their time"},
                   {"muster stacks -r 3 --native", "also functions of libraries, as of NCCL or MPI"},
                   {"muster stacks -r 3 --json", "rank 3, for a script"}},
      .exit_codes = {{"0",
                      "all stacks were read; those that are inexact are marked. With --explain: no rank seems to hold "
                      "the job up"},
                     {"1", "a host, process or thread could not be read; it is named"},
                     {"2", "a mistake in the command line, or no such job"},
                     {"3", "with --explain: the job seems to hang, and suspect ranks are named"},
                     {"4", "with --explain: hosts did not answer; they are named"},
                     {"125", "the output or the file could not be written"}},
  };
  return kDoc;
}

}  // namespace muster::cli::verbs
