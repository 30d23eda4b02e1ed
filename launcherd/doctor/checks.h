// The rows of `muster doctor`: what a fact about a host means for jobs there, and what to do about it. Pure functions;
// thresholds are in the .cc files, beside the reason for each.
#pragma once

#include <string>
#include <vector>

#include "launcherd/doctor/findings.h"
#include "model/diagnosis.h"

namespace muster::launcherd::inline doctor {

// checks_reach.cc: how hosts and launcher reach each other.
model::Check check_name(const HostFindings& findings);
// FAIL: none of the other checks was possible. Name look-up failures belong to check_name.
model::Check check_ssh(const HostFindings& findings);
model::Check check_back_connection(const v1::HostFacts& facts, const std::string& agent_link);
model::Check check_link(const v1::HostFacts& facts, const std::string& agent_link, bool is_local);
model::Check check_peer(const PeerFinding& peer);
model::Check check_clock(const ClockSample& clock);

// checks_host.cc: what the host allows.
// `locks_memory`: the host has what locks it (InfiniBand, GPUs), so that MEMLOCK matters.
model::Check check_limit(const v1::LimitFact& limit, bool locks_memory);
bool locks_memory(const v1::HostFacts& facts);
model::Check check_threads(const v1::HostFacts& facts);
model::Check check_space(const v1::SpaceFact& space);
model::Check check_kernel(const std::string& release);
model::Check check_containment(const v1::HostFacts& facts);
model::Check check_logind(const v1::LogindFact& logind, const std::string& user);

// checks_programs.cc: what ranks find.
model::Check check_cores(const v1::Hello& hello);
model::Check check_gpus(const v1::HostFacts& facts);
model::Check check_gpu_memory(const v1::HostFacts& facts);  // of a host whose driver tells who uses its GPUs
model::Check check_nics(const v1::HostFacts& facts);
model::Check check_python(const v1::HostFacts& facts);
model::Check check_torch(const v1::HostFacts& facts);

}  // namespace muster::launcherd::doctor
