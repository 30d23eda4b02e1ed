#include "launcherd/bootstrap/remote_program.h"

namespace muster::launcherd::inline bootstrap {

Failure run_to_end(RemoteProgram& program, std::string_view input, std::size_t limit, const Waiter& waiter,
                   ProgramResult& result) {
  bool is_input_open = true;
  while (!program.has_ended()) {
    if (is_input_open && input.empty()) {
      is_input_open = false;
      if (Failure failure = program.close_input(waiter); !failure.ok()) return failure;
      continue;
    }
    // Check for a cancel even if there is always more to read.
    if (Failure failure = wait_failure(waiter.check()); !failure.ok()) return failure;
    if (Failure failure = program.exchange(input, result.output, result.errors, waiter); !failure.ok()) return failure;
    // Read and drop the output above the limit, so that the program can end.
    if (result.output.size() > limit) result.output.resize(limit);
    if (result.errors.size() > limit) result.errors.resize(limit);
  }
  result.exit_status = program.exit_status();
  return {};
}

}  // namespace muster::launcherd::bootstrap
