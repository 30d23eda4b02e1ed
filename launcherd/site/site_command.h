// Builds the argument vector by which each site's launcher starts one agent per host, without binding it to CPUs. It
// never builds a command line for a shell. Pure functions, tested by tables.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "launcherd/bootstrap/bootstrap.h"

namespace muster::launcherd::inline site {

std::string_view bootstrap_name(BootstrapBy by);  // as in --bootstrap; "command" for kCommand

// The program to run on the hosts.
struct SiteAgent {
  std::string program;            // the same path on all hosts
  std::vector<std::string> args;  // {"--join", FILE} or {"--sweep", …}
  // If set, the agents enrol by this file. Agents that are started one by one then also get --host NAME.
  std::string join_file = {};
  // Lists the hosts, one a line, for launchers that read hosts from a file.
  std::string host_file = {};
};

struct SiteLauncher {
  BootstrapBy by = BootstrapBy::kSrun;
  std::vector<std::string> words = {};       // the result of split_words() for the template; only for kCommand
  std::vector<std::string> allocation = {};  // as in BootstrapOptions
};

struct SiteCommand {
  std::vector<std::string> argv;
  std::vector<std::size_t> hosts;  // indices of the hosts on which the command starts agents
};

// Returns one command for all hosts, or one for each host. INVALID_ARGUMENT: this launcher cannot start agents on these
// hosts; the message says why.
base::Result<std::vector<SiteCommand>> site_commands(const SiteLauncher& launcher,
                                                     const std::vector<BootstrapTarget>& hosts, const SiteAgent& agent);
bool needs_host_file(BootstrapBy by);

// Finds the place of a host in a list of names. It compares whole names first. Then it compares the part before the
// first dot, if only one name has that part and neither is an address. It returns the first place of a name that occurs
// several times.
class HostIndex {
 public:
  explicit HostIndex(const std::vector<std::string>& names);
  std::optional<std::size_t> find(const std::string& name) const;

 private:
  std::map<std::string, std::size_t> places_;
  std::map<std::string, std::optional<std::size_t>> short_places_;  // nullopt if several names share the short name
};

// Returns the command for a user to type on a host.
std::string typed_command(const BootstrapTarget& host, const SiteAgent& agent);

// Returns the batch job's variables that must be unset. Such variables would change how many agents the launcher
// starts.
std::vector<std::string> variables_without(BootstrapBy by);

// True for a line that a site's launcher prints although our request is correct.
bool is_usual_remark(std::string_view line);

// Splits a template into words at blanks. The quotes '…' and "…" and the escape \ keep blanks, and are removed. No
// other character is special.
// INVALID_ARGUMENT: a quote is not closed, or {host} or {cmd} is missing.
base::Result<std::vector<std::string>> split_words(std::string_view text);

}  // namespace muster::launcherd::site
