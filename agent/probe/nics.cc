#include "agent/probe/nics.h"

#include "base/directory.h"
#include "base/file.h"
#include "base/strings.h"

namespace muster::agent::inline probe {
namespace {

constexpr long kMostMbps = 100'000'000;

std::string first_line(const std::string& path) {
  const auto content = base::read_file(path, 256);
  return content.ok() ? std::string(base::trim(std::string_view(*content).substr(0, content->find('\n')))) : "";
}

// Returns 100000 for "100 Gb/sec (4X EDR)".
std::int64_t rate_mbps(const std::string& text) {
  const auto gigabits =
      base::parse_decimal(std::string_view(text).substr(0, text.find_first_of(" .")), kMostMbps / 1000);
  return gigabits ? *gigabits * 1000 : 0;
}

// Returns "ACTIVE" for "4: ACTIVE".
std::string port_state(const std::string& text) {
  const std::size_t colon = text.find(": ");
  return colon == std::string::npos ? text : text.substr(colon + 2);
}

}  // namespace

std::vector<v1::NicFact> read_nics(const std::string& sys) {
  std::vector<v1::NicFact> facts;
  for (const std::string& name : base::entries_of(sys + "/class/net")) {
    const std::string directory = sys + "/class/net/" + name;
    const std::string type = first_line(directory + "/type");
    // Skips entries that are not devices (bonding_masters) and loopback (ARPHRD_LOOPBACK).
    if (type.empty() || type == "772") continue;
    v1::NicFact& fact = facts.emplace_back();
    fact.set_name(name);
    fact.set_kind("ethernet");
    fact.set_state(first_line(directory + "/operstate"));
    fact.set_speed_mbps(base::parse_decimal(first_line(directory + "/speed"), kMostMbps).value_or(0));
  }
  for (const std::string& device : base::entries_of(sys + "/class/infiniband")) {
    const std::string ports = sys + "/class/infiniband/" + device + "/ports";
    for (const std::string& port : base::entries_of(ports)) {
      v1::NicFact& fact = facts.emplace_back();
      fact.set_name(fmt::format("{}/{}", device, port));
      fact.set_kind("infiniband");
      fact.set_state(port_state(first_line(ports + "/" + port + "/state")));
      fact.set_speed_mbps(rate_mbps(first_line(ports + "/" + port + "/rate")));
    }
  }
  return facts;
}

}  // namespace muster::agent::probe
