#include "cli/hosts/program_main.h"

#include <system_error>

#include "base/thread.h"
#include "cli/hosts/standard_streams.h"
#include "model/exit_code.h"

namespace muster::cli::inline hosts {

int run_program(std::string_view program, const std::function<int(const base::Environment&)>& body) {
  try {
    return body(base::Environment::current());
  } catch (const std::system_error& failure) {
    return fail_as(program, model::kMusterFailed, base::thread_failure(failure));
  }
}

}  // namespace muster::cli::hosts
