// Reads what systemd-logind does with a user's processes and shared memory at logout: logind.conf(5) and its drop-ins.
#pragma once

#include <string>
#include <string_view>

namespace muster::agent::inline probe {

struct LogindSettings {
  std::string kill_user_processes;  // as written; empty if not set, so that the distribution's default holds
  std::string remove_ipc;
};

// Applies the section [Login] of one configuration file over `settings`. An empty value resets a setting. Pure.
void read_logind_file(std::string_view content, LogindSettings& settings);

// Reads logind.conf and its drop-ins below `root` ("" on a host), in systemd's order. Drop-ins are sorted by file
// name. A name in /etc hides the same name in /run, which hides the one in /usr/lib.
LogindSettings read_logind_settings(const std::string& root);

// True if systemd is the init of this host (sd_booted(3)).
bool is_systemd_running(const std::string& root);

// True if `loginctl enable-linger` was called: the user's manager and processes stay without a login.
bool does_user_linger(const std::string& root, std::string_view user);

}  // namespace muster::agent::probe
