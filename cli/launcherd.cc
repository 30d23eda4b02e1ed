// launcherd: runs the jobs that users submit to it.
#include "cli/daemon/run_launcherd.h"
#include "cli/hosts/standard_streams.h"

int main(int argc, char** argv) {
  muster::cli::hold_standard_streams(argv);
  return muster::cli::run_launcherd({argv + 1, argv + argc});
}
