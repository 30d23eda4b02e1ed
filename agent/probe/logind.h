// What systemd-logind does with a user's processes and shared memory when he logs out: logind.conf(5) and its drop-ins.
#pragma once

#include <string>
#include <string_view>

namespace muster::agent::inline probe {

struct LogindSettings {
  std::string kill_user_processes;  // as written; empty: not set, the distribution's default holds
  std::string remove_ipc;
};

// Takes what one configuration file sets in its section [Login] over what earlier ones set; an empty value takes a
// setting back. Pure.
void read_logind_file(std::string_view content, LogindSettings& settings);

// logind.conf and its drop-ins below `root` ("" on a host), in systemd's order: drop-ins by their file names, a name in
// /etc hides the same one in /run, and that the one in /usr/lib.
LogindSettings read_logind_settings(const std::string& root);

// systemd is the init of this host (sd_booted(3)).
bool is_systemd_running(const std::string& root);

// loginctl enable-linger: the user's manager and processes stay without a login.
bool does_user_linger(const std::string& root, std::string_view user);

}  // namespace muster::agent::probe
