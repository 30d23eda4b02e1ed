// Shows long text through the user's pager.
// Thread: main, before other threads start: page() changes how the process takes SIGINT, SIGQUIT and SIGPIPE.
#pragma once

#include <string>
#include <string_view>

#include "base/env.h"
#include "cli/help/text_look.h"

namespace muster::cli::inline hosts {

// Returns the pager as a command for sh: MUSTER_PAGER, else PAGER, else less if it is on the PATH. Empty if there is
// none, if the variable is empty or cat, or if the terminal is dumb.
std::string pager_command(const base::Environment& environment);

// True if the whole text can be seen at once. True if the height of the screen is unknown.
bool fits_screen(std::string_view text, const Screen& screen);

// Runs the pager on the text and waits for its end, however it ends. Ctrl-C is the pager's, not ours. A pager that
// closes its input early is no error. Returns false if the pager could not be started; the text was not shown then.
bool page(const std::string& command, std::string_view text, const base::Environment& environment);

}  // namespace muster::cli::hosts
