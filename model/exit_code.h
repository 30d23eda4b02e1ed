// The exit codes of Muster: each cause, its code, and the sentence that describes it. Constant data.
//
//   return model::kTimedOut;
//   fmt::print("{}\n", model::exit_sentence(model::kTimedOut));
//
// docs/guide/exit-codes.md has the table for users; a test compares it. If a rank failed, its own code passes
// unchanged.
#pragma once

#include <csignal>
#include <string_view>

namespace muster::model {

// Returns the code of a process that a signal ended, as a shell shows it.
constexpr int signal_exit_code(int signo) {
  return 128 + signo;
}

// Each value is an exit code.
enum ExitCause : int {
  kSuccess = 0,
  kNotAnswered = 1,
  kUsageError = 2,
  kHasSuspects = 3,  // of muster stacks --explain
  kHostsSilent = 4,  // of muster stacks --explain
  kNeverAgain = 93,  // the code of NVIDIA's ft_launcher for the same request
  kTimedOut = 124,
  kMusterFailed = 125,
  kNotExecutable = 126,  // 126 and 127 have the meaning that shells give them
  kNotFound = 127,
  kHungUp = signal_exit_code(SIGHUP),
  kInterrupted = signal_exit_code(SIGINT),
  kStdoutClosed = signal_exit_code(SIGPIPE),
  kTerminated = signal_exit_code(SIGTERM),
};

struct ExitCode {
  ExitCause cause;
  std::string_view sentence;  // without a full stop
};

// One row for each exit code.
inline constexpr ExitCode kExitCodes[] = {
    {kSuccess, "all ranks ended with 0"},
    {kNotAnswered, "a launcher or a host did not answer"},
    {kUsageError,
     "wrong command line or configuration, the output folder cannot be made, or a host lacks the GPUs or cores asked "
     "for; no rank was started"},
    {kHasSuspects, "the job seems to hang, and suspect ranks are named"},
    {kHostsSilent, "hosts did not answer; they are named"},
    {kNeverAgain, "a rank asked, with this exit code, that the job is not started again"},
    {kTimedOut, "the job reached its --timeout, or hung without a suspect rank and --on-hang kill ended it"},
    {kMusterFailed,
     "Muster failed: a host did not start or was lost, its agent ended before all output had come, output could not be "
     "written, or a job that it waited for (--after) did not succeed"},
    {kNotExecutable, "the command cannot be executed"},
    {kNotFound, "the command was not found"},
    {kHungUp, "stopped by SIGHUP"},
    {kInterrupted, "stopped by Ctrl-C (SIGINT)"},
    {kStdoutClosed, "the reader of stdout closed it, as head does"},
    {kTerminated, "stopped by SIGTERM"},
};

// Empty if `code` is not in the table.
constexpr std::string_view exit_sentence(int code) {
  for (const ExitCode& row : kExitCodes) {
    if (row.cause == code) return row.sentence;
  }
  return {};
}

}  // namespace muster::model
