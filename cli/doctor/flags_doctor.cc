// The options of `muster doctor`: hvdrun's options on which hosts and how they are reached.
#include <array>

#include "cli/doctor/doctor.h"

namespace muster::cli::inline doctor {
namespace {

constexpr auto kDoctorFlagsOfHvdrun = std::to_array<std::string_view>(
    {"hosts", "hostfile", "network-interfaces", "network", "ssh-port", "ssh-identity-file", "ssh-backend", "bootstrap",
     "bootstrap-cmd", "agent-link", "agent-dir", "env", "env-none", "verbose", "start-timeout", "contain",
     "config-file"});

}  // namespace

const FlagTable& doctor_flags() {
  static const FlagTable kTable = host_verb_flags(
      kDoctorFlagsOfHvdrun,
      {toggle("json", {{"--json", "true"}}, "Print one muster.v1.HostDiagnosis a line, as JSON.").command_line_only()});
  return kTable;
}

}  // namespace muster::cli::doctor
