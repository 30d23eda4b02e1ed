#include "launcherd/hosts/ask_program.h"

#include <utility>

#include "launcherd/bootstrap/child.h"

namespace muster::launcherd::inline hosts {
namespace {

using base::Code;
using base::error;

constexpr std::size_t kMaxOutput = 1u << 20;  // about 50,000 hosts

// Stops reading after kMaxOutput bytes, because the program may never end.
Failure run_bounded(RemoteProgram& program, const Waiter& waiter, ProgramResult& result) {
  if (Failure failure = program.close_input(waiter); !failure.ok()) return failure;
  std::string_view no_input;
  while (!program.has_ended() && result.output.size() <= kMaxOutput) {
    if (Failure failure = wait_failure(waiter.check()); !failure.ok()) return failure;
    if (Failure failure = program.exchange(no_input, result.output, result.errors, waiter); !failure.ok()) {
      return failure;
    }
    if (result.errors.size() > kMaxOutput) result.errors.resize(kMaxOutput);
  }
  if (program.has_ended()) result.exit_status = program.exit_status();
  return {};
}

}  // namespace

std::string quoted_errors(const ProgramResult& result) {
  const std::string words = quote_for_message(result.errors);
  return words.empty() ? "" : "; it printed: " + words;
}

base::Result<ProgramResult> ask_program(const std::string& name, const std::vector<std::string>& argv,
                                        const Waiter& waiter) {
  Pump pump;
  auto child = spawn_child(argv.front(), argv, {});
  if (!child.ok()) return child.status().with_context(name);
  ChildProcess& process = *child->process;  // `program` below owns it
  ChildProgram program(*std::move(child), pump, nullptr);
  ProgramResult result;
  const Failure failure = run_bounded(program, waiter, result);
  if (!failure.ok()) {
    process.kill_group();
    const char* what = failure.kind == FailureKind::kTimeout ? "took too long and was killed" : "was interrupted";
    return error(failure.kind == FailureKind::kTimeout ? Code::kDeadlineExceeded : Code::kCancelled, "{} {}{}", name,
                 what, quoted_errors(result));
  }
  if (result.output.size() > kMaxOutput) {
    process.kill_group();
    return base::resource_exhausted("{} prints more than {} MiB", name, kMaxOutput >> 20);
  }
  if (result.exit_status > 128) {
    return base::unavailable("{} was ended by signal {}{}", name, result.exit_status - 128, quoted_errors(result));
  }
  if (result.exit_status != 0) {
    return base::unavailable("{} ended with exit code {}{}", name, result.exit_status, quoted_errors(result));
  }
  return result;
}

}  // namespace muster::launcherd::hosts
