// Asks NCCL's RAS for its report. Each process that uses NCCL 2.24 or later listens for such questions, by default at
// localhost:28028. NCCL_RAS_ADDR sets another address, and NCCL_RAS_ENABLE=0 switches RAS off.
//
// Protocol (NCCL's docs, "RAS"): lines "CLIENT PROTOCOL 2", "TIMEOUT 1", "SET FORMAT json", "VERBOSE STATUS". The
// server answers "SERVER PROTOCOL n", "OK", "OK", and the report, after which it closes.
//
// Processes of several jobs of one user may listen at the same port. So the answer counts only if the process at the
// other end belongs to the job.
//
// Thread: any. Calls block until the deadline at most, and read /proc.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/proc/process_environment.h"
#include "agent/proc/process_sockets.h"
#include "base/status.h"

namespace muster::agent::inline evidence {

inline constexpr std::uint16_t kNcclRasPort = 28028;
inline constexpr std::chrono::milliseconds kNcclRasLimit{2'000};

// Returns the port at which the process listens for RAS, as far as its environment says. nullopt if RAS is switched off
// or the port is not known.
std::optional<std::uint16_t> nccl_ras_port(const ProcessEnvironment& environment);

// Returns the listening sockets among those of a process at which RAS can be reached from this host.
std::vector<TcpSocket> nccl_ras_listeners(const std::vector<TcpSocket>& sockets, std::uint16_t port);

// Returns the report in JSON. `pids` are the processes of the job that may listen.
// NOT_FOUND: none listens. Other errors: the answer is missing, is too long, or comes from another program.
base::Result<std::string> ask_nccl(const std::vector<pid_t>& pids,
                                   std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::now() +
                                                                                    kNcclRasLimit);

}  // namespace muster::agent::evidence
