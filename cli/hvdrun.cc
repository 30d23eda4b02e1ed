// hvdrun: runs a job in the foreground. The build makes horovodrun a link to it.
#include "base/build_id.h"
#include "cli/hosts/standard_streams.h"
#include "cli/hosts/surroundings.h"
#include "cli/options/color_option.h"
#include "cli/options/horovodrun.h"
#include "cli/options/hvdrun_flags.h"
#include "cli/options/options.h"
#include "cli/run/run_job.h"
#include "cli/verbs/complete.h"

int main(int argc, char** argv) {
  muster::cli::hold_standard_streams(argv);
  const std::vector<std::string> words(argv + 1, argv + argc);
  const muster::cli::CompletedProgram completed{.name = "hvdrun", .verbs = {{"", &muster::cli::hvdrun_flags()}}};
  if (const auto answered = muster::cli::answer_shell(completed, words)) return *answered;
  const auto color = muster::cli::typed_color(words, muster::cli::hvdrun_flags());
  return muster::cli::run_command(color, [&](const auto& environment, const auto& look) {
    muster::cli::ParseContext context{.build_id = muster::base::build_id(), .look = look};
    context.is_horovodrun = argc > 0 && muster::cli::is_horovodrun(argv[0]);
    // Ignore failure: --self-test then names a program that the hosts do not find, and they report it.
    if (auto directory = muster::cli::program_directory(); directory.ok()) context.program_directory = *directory;
    return muster::cli::parse_hvdrun(words, environment, context);
  });
}
