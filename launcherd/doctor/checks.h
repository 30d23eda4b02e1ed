// The rows of `muster doctor`. A check explains what a fact about a host means for jobs there, and what to do about it.
// Pure functions. The .cc files hold the thresholds and their reasons.
#pragma once

#include <string>
#include <vector>

#include "launcherd/doctor/findings.h"
#include "model/diagnosis.h"

namespace muster::launcherd::inline doctor {

// These checks find out whether hosts and launcher reach each other (checks_reach.cc).
model::Check check_name(const HostFindings& findings);
// FAIL means that no other check was possible. check_name() reports names that cannot be resolved.
model::Check check_ssh(const HostFindings& findings);
model::Check check_back_connection(const v1::HostFacts& facts, const std::string& agent_link);
model::Check check_link(const v1::HostFacts& facts, const std::string& agent_link, bool is_local);
model::Check check_peer(const PeerFinding& peer);
model::Check check_clock(const ClockSample& clock);

// These checks find out what the host permits (checks_host.cc).
// `locks_memory` is true if the host has devices that lock memory (InfiniBand, GPUs), so that MEMLOCK matters.
model::Check check_limit(const v1::LimitFact& limit, bool locks_memory);
bool locks_memory(const v1::HostFacts& facts);
model::Check check_threads(const v1::HostFacts& facts);
model::Check check_space(const v1::SpaceFact& space);
model::Check check_kernel(const std::string& release);
model::Check check_containment(const v1::HostFacts& facts);
model::Check check_logind(const v1::LogindFact& logind, const std::string& user);

// These checks find out what ranks find on the host (checks_programs.cc).
model::Check check_cores(const v1::Hello& hello);
model::Check check_gpus(const v1::HostFacts& facts);
// Call this only for hosts whose driver reports which processes use their GPUs.
model::Check check_gpu_memory(const v1::HostFacts& facts);
model::Check check_nics(const v1::HostFacts& facts);
model::Check check_python(const v1::HostFacts& facts);
model::Check check_torch(const v1::HostFacts& facts);

}  // namespace muster::launcherd::doctor
