// Runs one command beside a rank and connects it with descriptors of this process: stdin, output and stderr, signals,
// and the terminal. `exec`, `shell` and `cp` use it.
//
// Thread: the main thread, before any other thread exists, because it blocks signals. A thread of its own reads what
// the launcher sends, and writes it to the descriptors, and another one sends requests. So signals are handled also
// when both block. A reader that is slow slows the command down. Errors: see ExecOutcome.
//
// Signals: INT, QUIT, TERM and HUP go to the command. A second TERM or HUP, or a third INT, gives the command up; with
// a terminal the first TERM or HUP does, because keys are the way to its programs.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/status.h"
#include "cli/verbs/found_jobs.h"
#include "proto/muster/v1/launcher.pb.h"

namespace muster::cli::inline verbs {

// The descriptors are borrowed.
struct ExecStreams {
  int input = -1;         // -1 means no input
  int output = -1;        // receives the command's stdout, or all that its terminal shows
  int error_output = -1;  // -1 means that ExecOutcome::complaints keeps it instead
};

struct ExecHooks {
  // Called at the end of the input, on the main thread. An error gives the command up and becomes the outcome.
  std::function<base::Status()> on_input_end{};
  // Receives bytes of stdout in place of ExecStreams::output, on the reading thread. An error gives the command up.
  std::function<base::Status(std::string_view bytes)> on_output{};
  // Reports bytes that were read from the input, on the main thread.
  std::function<void(std::size_t bytes)> on_sent{};
};

struct ExecOutcome {
  // The command ran, or the launcher said why it could not: how it ended. Else `failure` says what went wrong.
  std::optional<v1::ExecEnd> end{};
  base::Status failure{};
  bool is_output_closed = false;  // nothing reads this process's output any longer
  int given_up_by = 0;            // the signal on which the command was given up
  std::string host{};             // where the command ran; empty if it did not start
  std::string complaints{};       // the last bytes of its stderr, if they went nowhere else
};

// `first` has no job; the function sets it. `job` must have no connection yet, because gRPC's threads block the signals
// that were blocked when they began.
ExecOutcome run_exec(FoundJob job, v1::ExecRequest first, const ExecStreams& streams, const ExecHooks& hooks = {});

}  // namespace muster::cli::verbs
