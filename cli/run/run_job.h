// Runs a job in the foreground, from its options to its exit code. hvdrun and `muster torchrun` share it. The launcher
// lives inside this process; this file only connects its parts.
#pragma once

#include <functional>

#include "base/env.h"
#include "cli/options/options.h"

namespace muster::cli::inline run {

// Call it from the main thread while no other thread runs. Returns the exit code of the program (CONTRACT: Exit).
int run_job(HvdrunOptions options, const base::Environment& environment);

// Does the work of a launcher's main(). If the command line asks for a text, such as help, prints it. Otherwise runs
// the job. `color` is what the command line says (typed_color()). `parse` gets the look of help texts.
using ParseCommand = std::function<ParsedHvdrun(const base::Environment& environment, const TextLook& look)>;
int run_command(ColorWhen color, const ParseCommand& parse);

}  // namespace muster::cli::run
