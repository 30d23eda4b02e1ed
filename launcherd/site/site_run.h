// Runs one process of a site's launcher while its agents live. SiteRunEvents report the process's lines and its end.
// Thread: it is an item of the pump, so all callbacks run on the pump's thread.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "launcherd/bootstrap/child.h"

namespace muster::launcherd::inline site {

struct SiteRunEvents {
  std::function<void(const std::string& line)> on_line;  // a line of the process's stdout or stderr
  // Called when the process has ended. `last_lines` are its last lines, for a message.
  std::function<void(int exit_status, const std::string& last_lines)> on_end;
  // True if some agents of the process have enrolled. The process then ends by itself after its agents. Do not end it
  // earlier, because its agents would end with it.
  std::function<bool()> has_agents;
  // True if no agent has enrolled and none can enrol any longer. The pump then ends the process. Call Pump::wake() if
  // the result may have changed.
  std::function<bool()> is_given_up;
};

// Starts `argv` in its own session, with an empty stdin and without the variables in `unset`.
// When the pump ends, it ends the process and everything that the process started. A process with agents gets 3 s to
// end with them. After that the process lives on as long as its agents do, because a warm agent of launcherd may have
// jobs to keep.
base::Status start_site_run(Pump& pump, const std::vector<std::string>& argv, const std::vector<std::string>& unset,
                            SiteRunEvents events);

}  // namespace muster::launcherd::site
