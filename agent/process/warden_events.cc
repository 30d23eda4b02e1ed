#include "agent/process/warden_events.h"

namespace muster::agent::inline process {

base::Result<ContainLevel> parse_contain_level(std::string_view text) {
  if (text == "auto" || text.empty()) return ContainLevel::kAuto;
  if (text == "cgroup") return ContainLevel::kCgroup;
  if (text == "pidns") return ContainLevel::kPidns;
  if (text == "subreaper") return ContainLevel::kSubreaper;
  return base::invalid_argument("'{}' is not a containment: use auto, cgroup, pidns or subreaper", text);
}

std::string Containment::name() const {
  if (cgroup && pidns) return "cgroup+pidns";
  if (cgroup) return "cgroup";
  return pidns ? "pidns" : "subreaper";
}

}  // namespace muster::agent::process
