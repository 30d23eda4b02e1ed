// How each site's own launcher is called so that it starts one agent on each of some hosts, bound to nothing: its
// argument vector. Never a shell's command line. Pure functions, tested by tables.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "launcherd/bootstrap/bootstrap.h"

namespace muster::launcherd::inline site {

std::string_view bootstrap_name(BootstrapBy by);  // as --bootstrap has it; kCommand: "command"

// What is to run on the hosts.
struct SiteAgent {
  std::string program;            // the same path on all hosts
  std::vector<std::string> args;  // {"--join", FILE} or {"--sweep", …}
  std::string join_file = {};     // set: the agents enrol, and those that are started one by one get --host NAME
  std::string host_file = {};     // where a launcher that reads hosts from a file finds them, one a line
};

struct SiteLauncher {
  BootstrapBy by = BootstrapBy::kSrun;
  std::vector<std::string> words = {};       // of kCommand: what split_words() made of the template
  std::vector<std::string> allocation = {};  // as in BootstrapOptions
};

struct SiteCommand {
  std::vector<std::string> argv;
  std::vector<std::size_t> hosts;  // indices of those that it starts agents on
};

// One command for all hosts, or one for each. INVALID_ARGUMENT: this launcher cannot start agents on these hosts; the
// message says why.
base::Result<std::vector<SiteCommand>> site_commands(const SiteLauncher& launcher,
                                                     const std::vector<BootstrapTarget>& hosts, const SiteAgent& agent);
bool needs_host_file(BootstrapBy by);

// Where hosts are in a list of names: by a whole name, else by the part before the first dot where that is one name's
// only and neither is an address. Of a name that is there more than once: the first place.
class HostIndex {
 public:
  explicit HostIndex(const std::vector<std::string>& names);
  std::optional<std::size_t> find(const std::string& name) const;

 private:
  std::map<std::string, std::size_t> places_;
  std::map<std::string, std::optional<std::size_t>> short_places_;  // nullopt: of several names
};

// What is to be typed on a host by hand.
std::string typed_command(const BootstrapTarget& host, const SiteAgent& agent);

// Variables by which a batch job's own size would change what its launcher starts for us.
std::vector<std::string> variables_without(BootstrapBy by);

// A line that such a program prints although nothing is wrong with what we asked for.
bool is_usual_remark(std::string_view line);

// A template in words: blanks separate; '…', "…" and \ keep them, and are taken away; nothing else is special.
// INVALID_ARGUMENT: a quote is not closed, or {host} or {cmd} is missing.
base::Result<std::vector<std::string>> split_words(std::string_view text);

}  // namespace muster::launcherd::site
