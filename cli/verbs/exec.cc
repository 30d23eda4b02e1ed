#include "cli/verbs/exec.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/strings.h"
#include "cli/verbs/exec_session.h"
#include "cli/verbs/rank_word.h"
#include "cli/verbs/verb.h"

namespace muster::cli::inline verbs {
namespace {

constexpr int kSignalled = 128;  // a shell's exit code for a signal, without the signal's number

FlagRow one_rank_row() {
  return option("rank", {"-r", "--rank"}, "N", "Beside this rank. Needed if the job has several.").command_line_only();
}

FlagRow no_stdin_row() {
  return toggle("no-stdin", {{"-n", "true"}, {"--no-stdin", "true"}},
                "The command gets no input, as in loops of shells.")
      .command_line_only();
}

int exit_code_of(const VerbCall& call, const FoundJob& job, const ExecOutcome& outcome) {
  if (outcome.end) {
    if (!outcome.end->message().empty()) call.remark(base::printable(outcome.end->message()));
    return outcome.end->exit_code();
  }
  if (outcome.given_up_by != 0) return kSignalled + outcome.given_up_by;
  if (outcome.is_output_closed) return kStdoutClosed;
  if (is_users_mistake(outcome.failure)) return call.fail(outcome.failure);
  return call.fail(fmt::format("job {}: {}", job.id, base::printable(outcome.failure.message())), kMusterFailed);
}

// Runs the command and returns its exit code.
int run_beside(const VerbCall& call, v1::ExecRequest request) {
  const auto rank = read_rank(call.settings());
  if (!rank.ok()) return call.fail(rank.status());
  if (*rank) request.set_rank(**rank);
  auto job = one_job(call);
  if (!job.ok()) return call.fail(job.status());
  // Ends the connection that has found the job, and gRPC's threads with it: they do not block the signals that
  // run_exec() blocks, so one of them would take a Ctrl-C.
  job->launcher.connection = nullptr;
  if (request.terminal()) {
    const char* const term = ::getenv("TERM");
    if (term != nullptr) request.set_term(term);
  }
  const ExecStreams streams{
      .input = call.has("no-stdin") ? -1 : STDIN_FILENO, .output = STDOUT_FILENO, .error_output = STDERR_FILENO};
  return exit_code_of(call, *job, run_exec(*job, std::move(request), streams));
}

}  // namespace

const CommandDoc& exec_doc() {
  static const FlagTable kTable =
      verb_table(with_launcher_rows({one_rank_row(),
                                     toggle("terminal", {{"-t", "true"}, {"--terminal", "true"}},
                                            "The command gets a terminal, as programs with a screen need it.")
                                         .command_line_only(),
                                     no_stdin_row()}),
                 {{.completes = Completes::kJob}});
  static const CommandDoc kDoc = {
      .name = "muster exec",
      .summary = "run a command beside a rank of a running job",
      .usage = "[options] [JOB] -- COMMAND...",
      .description =
          "Runs the command on the rank's host, with the rank's environment, working directory, limits, CPUs, cgroup "
          "and container. Its input, output and exit code are those of muster exec. Ctrl-C goes to the command.\n\n"
          "The command belongs to the job. It ends with the rank, with the job, and when muster exec ends. Background "
          "processes that it leaves end with the job.\n\n"
          "JOB is the beginning of a job's id, or its name. It is needed if there are several jobs.",
      .groups = {{FlagGroup::kGeneral, "Options"}},
      .table = &kTable,
      .notes = "",
      .examples = {{"muster exec k7 -r 3 -- nvidia-smi", "the GPUs as rank 3's host shows them"},
                   {"muster exec k7 -r 3 -- sh -c 'cat /proc/self/cgroup; env'", "what the rank runs in"},
                   {"muster exec k7 -r 0 -t -- htop", "a program with a screen"},
                   {"muster exec k7 -r 0 -- tar -c results | tar -x", "bytes through a pipe"}},
      .exit_codes = {{"0", "the command has succeeded"},
                     {"N", "the command's exit code; 128 + N if signal N ended it"},
                     {"2", "a mistake in the command line, no such job or rank, or the rank does not run"},
                     {"125", "Muster failed: no answer, or the command was not started"},
                     {"126, 127", "the command cannot be executed, or was not found"}},
  };
  return kDoc;
}

const CommandDoc& shell_doc() {
  static const FlagTable kTable =
      verb_table(with_launcher_rows({one_rank_row(), no_stdin_row()}), {{.completes = Completes::kJob}});
  static const CommandDoc kDoc = {
      .name = "muster shell",
      .summary = "open a shell beside a rank of a running job",
      .usage = "[options] [JOB]",
      .description =
          "Opens your log-in shell on the rank's host, with the rank's environment, working directory, limits, CPUs, "
          "cgroup and container. If stdin and stdout are a terminal, the shell gets a terminal, too.\n\n"
          "The shell belongs to the job: it ends with the rank, with the job, and when muster shell ends.",
      .groups = {{FlagGroup::kGeneral, "Options"}},
      .table = &kTable,
      .notes = "",
      .examples = {{"muster shell k7 -r 3", "a shell where rank 3 runs"},
                   {"echo 'nvidia-smi; free -g' | muster shell k7 -r 3", "commands from a pipe"}},
      .exit_codes = {{"0", "the shell ended with 0"},
                     {"N", "the shell's exit code"},
                     {"2", "a mistake in the command line, no such job or rank, or the rank does not run"},
                     {"125", "Muster failed: no answer, or the shell was not started"}},
  };
  return kDoc;
}

int run_exec_verb(const std::string& verb, const std::vector<std::string>& arguments) {
  const auto dashes = std::ranges::find(arguments, "--");
  const VerbCall call(verb, exec_doc(), {arguments.begin(), dashes});
  if (call.exit_code()) return *call.exit_code();
  if (dashes == arguments.end() || dashes + 1 == arguments.end()) {
    return call.fail("which command? Write it behind --, as in muster exec k7 -r 3 -- ps");
  }
  v1::ExecRequest request;
  for (auto word = dashes + 1; word != arguments.end(); ++word) request.add_command(*word);
  request.set_terminal(call.has("terminal"));
  return run_beside(call, std::move(request));
}

int run_shell(const std::string& verb, const std::vector<std::string>& arguments) {
  const VerbCall call(verb, shell_doc(), arguments);
  if (call.exit_code()) return *call.exit_code();
  v1::ExecRequest request;
  request.set_shell(true);
  request.set_terminal(::isatty(STDIN_FILENO) != 0 && ::isatty(STDOUT_FILENO) != 0);
  return run_beside(call, std::move(request));
}

}  // namespace muster::cli::verbs
