// The options of `muster doctor`: hvdrun's that say which hosts, and how they are reached.
#include <algorithm>
#include <array>

#include "cli/doctor.h"
#include "cli/flag_row.h"

namespace muster::cli {
namespace {

constexpr auto kOfHvdrun = std::to_array<std::string_view>(
    {"hosts", "hostfile", "network-interfaces", "network", "ssh-port", "ssh-identity-file", "ssh-backend", "agent-link",
     "agent-dir", "env", "env-none", "verbose", "start-timeout", "contain", "config-file"});

}  // namespace

const FlagTable& doctor_flags() {
  static const FlagTable kTable = [] {
    std::vector<Flag> flags;
    for (const Flag& flag : hvdrun_flags().flags()) {
      if (std::ranges::find(kOfHvdrun, flag.name) != kOfHvdrun.end()) flags.push_back(flag);
    }
    add_group(
        FlagGroup::kGeneral,
        {toggle("json", {{"--json", "true"}}, "Print one muster.v1.HostDiagnosis a line, as JSON.").command_line_only(),
         toggle("help", {{"-h", "true"}, {"--help", "true"}}, "Print this text.").stands_alone()},
        flags);
    return FlagTable(std::move(flags));
  }();
  return kTable;
}

}  // namespace muster::cli
