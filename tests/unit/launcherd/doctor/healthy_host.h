// The findings of the doctor on a host without a problem.
#pragma once

#include <string>

#include "base/net.h"
#include "launcherd/doctor/findings.h"

namespace muster::testing_support {

inline launcherd::HostFindings healthy_host(const std::string& name) {
  launcherd::HostFindings findings;
  findings.host.name = name;
  findings.host_address = *base::IpAddress::parse("10.0.0.2");
  findings.backend = "libssh";
  findings.clock = launcherd::ClockSample{};
  v1::HostFacts& facts = findings.facts.emplace();
  facts.mutable_launcher()->set_address("10.0.0.1");
  v1::Hello& hello = *facts.mutable_hello();
  hello.set_hostname(name);
  hello.set_kernel("6.1.0");
  hello.set_containment("cgroup");
  hello.add_cores()->add_cpus(0);
  v1::NetworkInterface& interface = *hello.add_interfaces();
  interface.set_name("eth0");
  interface.set_address("10.0.0.2");
  facts.mutable_python()->set_version("3.11.2");
  return findings;
}

}  // namespace muster::testing_support
