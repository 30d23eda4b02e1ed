// hvdrun: runs a job in the foreground.
#include "base/build_id.h"
#include "cli/options.h"
#include "cli/run_job.h"
#include "cli/standard_streams.h"

int main(int argc, char** argv) {
  muster::cli::hold_standard_streams(argv);
  return muster::cli::run_command([&](const muster::base::Environment& environment) {
    return muster::cli::parse_hvdrun({argv + 1, argv + argc}, environment, {.build_id = muster::base::build_id()});
  });
}
