// One process of a site's launcher, while its agents live: its lines go to the user, its end to whoever waits for
// agents. An item of the pump: what it says comes on the pump's thread.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "launcherd/bootstrap/child.h"

namespace muster::launcherd::inline site {

struct SiteRunEvents {
  std::function<void(const std::string& line)> on_line;  // of its stdout and stderr
  // It ended; its last lines, for a message.
  std::function<void(int exit_status, const std::string& last_lines)> on_end;
  // Whether agents of its have come: it ends by itself when they do, and with it they would be ended.
  std::function<bool()> has_agents;
  // None has, and none can come any more: it is ended. Pump::wake() when that may have changed.
  std::function<bool()> is_given_up;
};

// Starts `argv` with an empty stdin in a session of its own, without the variables in `unset`. At the pump's end it is
// ended with all that it has started; where it has agents it is given 3 s to end with them, and then lives on for as
// long as they do: a warm one may have a job to keep.
base::Status start_site_run(Pump& pump, const std::vector<std::string>& argv, const std::vector<std::string>& unset,
                            SiteRunEvents events);

}  // namespace muster::launcherd::site
