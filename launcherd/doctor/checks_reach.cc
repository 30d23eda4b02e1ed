// The checks of names, log-ins, connections and clocks.
#include <cmath>

#include "launcherd/doctor/checks.h"

namespace muster::launcherd::inline doctor {
namespace {

using model::Check;
using model::CheckState;
using std::chrono::duration;

// Limits on the skew of clocks, in seconds. Users compare time stamps of lines and files from different hosts.
// Certificates and make(1) tolerate half a day.
constexpr double kSkewWarn = 1.0;
constexpr double kSkewFail = 12 * 3600.0;

struct Sentence {
  std::string seen;
  std::string advice;
};

// Splits a message of the bootstrap: "host NAME: what is wrong; what to do". Only the first part may contain text from
// the host.
Sentence cut(const std::string& message) {
  const std::size_t name = message.starts_with("host ") ? message.find(": ") : std::string::npos;
  const std::string rest = name == std::string::npos ? message : message.substr(name + 2);
  const std::size_t advice = rest.rfind("; ");
  if (advice == std::string::npos) return {rest, "try again with --verbose"};
  return {rest.substr(0, advice), rest.substr(advice + 2)};
}

std::string seconds(double value) {
  const double size = std::fabs(value);
  if (size < 1e-3) return fmt::format("{:.0f} us", value * 1e6);
  if (size < 1) return fmt::format("{:.1f} ms", value * 1e3);
  return fmt::format("{:.1f} s", value);
}

}  // namespace

Check check_name(const HostFindings& findings) {
  Check check{.name = "name"};
  if (findings.failure == FailureKind::kNameNotFound) {
    const Sentence sentence = cut(findings.status.message());
    return {"name", CheckState::kFail, sentence.seen, sentence.advice};
  }
  if (findings.is_local) {
    check.seen = "this host";
  } else if (findings.host_address) {
    check.seen = findings.host_address->str();
  } else {
    check.seen = "found by ssh";
  }
  if (findings.facts && !findings.facts->hello().hostname().empty()) {
    check.seen += fmt::format(", calls itself {}", findings.facts->hello().hostname());
  }
  return check;
}

Check check_ssh(const HostFindings& findings) {
  if (!findings.status.ok()) {
    Sentence sentence = cut(findings.status.message());
    if (findings.failure) sentence.seen = fmt::format("{}: {}", failure_words(*findings.failure), sentence.seen);
    return {"ssh", CheckState::kFail, sentence.seen, sentence.advice};
  }
  const std::string how = findings.is_local ? "not needed for this host" : "by " + findings.backend;
  return {"ssh", CheckState::kOk,
          fmt::format("{}, agent {} up in {} ms", how, findings.agent_sent ? "sent and" : "found and",
                      findings.start_time.count()),
          ""};
}

Check check_back_connection(const v1::HostFacts& facts, const std::string& agent_link) {
  Check check{.name = "back-connection"};
  if (!facts.has_launcher()) {
    check.seen = fmt::format("not tried (--agent-link {})", agent_link);
  } else if (!facts.launcher().address().empty()) {
    check.seen = fmt::format("the host reaches this launcher at {}", facts.launcher().address());
  } else {
    check.state = agent_link == "dial" ? CheckState::kFail : CheckState::kWarn;
    check.seen = fmt::format("the host cannot reach this launcher: {}", facts.launcher().failure());
    check.advice = "allow TCP connections from the host to this machine in the firewall (the kernel picks the ports)";
    if (agent_link == "dial") check.advice += ", or use --agent-link ssh";
  }
  return check;
}

Check check_link(const v1::HostFacts& facts, const std::string& agent_link, bool is_local) {
  const std::string channel = is_local ? "through the pipe to the agent" : "through ssh";
  if (agent_link == "ssh") return {"link", CheckState::kOk, fmt::format("ssh: {}, as asked", channel), ""};
  if (!facts.launcher().address().empty()) {
    return {"link", CheckState::kOk, "dial: control and output by connections from the host", ""};
  }
  if (agent_link == "dial") {
    return {"link", CheckState::kFail, "none: --agent-link dial forbids ssh, and the connection back fails",
            "use --agent-link auto"};
  }
  return {"link", CheckState::kOk, fmt::format("ssh: {}, because the connection back fails", channel), ""};
}

Check check_peer(const PeerFinding& peer) {
  if (peer.failure.empty()) {
    return {"peers", CheckState::kOk, fmt::format("reaches {} at {}", peer.host, peer.address), ""};
  }
  const std::string where = peer.address.empty() ? "" : fmt::format(" at {}", peer.address);
  return {"peers", CheckState::kFail, fmt::format("cannot reach {}{}: {}", peer.host, where, peer.failure),
          "ranks connect to each other: allow TCP between the hosts in their firewalls, or choose a network that all "
          "hosts share with --network or --network-interfaces"};
}

Check check_clock(const ClockSample& clock) {
  const double offset = duration<double>(clock.offset).count();
  const double uncertainty = duration<double>(clock.uncertainty).count();
  Check check{.name = "clock"};
  check.seen = fmt::format("{}{} from ours, +-{}", offset < 0 ? "" : "+", seconds(offset), seconds(uncertainty));
  const double least = std::fabs(offset) - uncertainty;
  if (least < kSkewWarn) return check;
  check.state = least < kSkewFail ? CheckState::kWarn : CheckState::kFail;
  check.advice = "set the clock by NTP on both machines: chronyc makestep, or timedatectl set-ntp true";
  return check;
}

}  // namespace muster::launcherd::doctor
