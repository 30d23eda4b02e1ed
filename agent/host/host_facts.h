// Collects what this host is, for the Hello: name, identity, network interfaces, cores, GPUs. Call it once, before
// the agent starts threads.
#pragma once

#include "agent/gpus/report.h"
#include "base/env.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::agent::inline host {

// Fills in hostname, netns_inode, uid, kernel, interfaces, cores, memory, GPUs with the login's masks, and the
// addresses of SSH_CONNECTION. `nvidia` is the report of NVIDIA's library, if it was asked (agent/gpus/gpus.h).
base::Status fill_host_facts(const base::Environment& login_environment, const gpus::GpuReport& nvidia,
                             v1::Hello& hello);

// Returns the interface by which this host reaches `master_address`, and this host's address on it.
base::Result<v1::Prepared> find_route(const std::string& master_address);

// Reserves a TCP port on all addresses, as long as the fd lives. The port is bound but does not listen, so no other
// process gets it. A rank that binds it with SO_REUSEADDR, as every TCPStore does, succeeds.
base::Result<base::UniqueFd> hold_port();

}  // namespace muster::agent::host
