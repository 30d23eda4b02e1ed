// What this host is, for the Hello: name, identity, network interfaces, cores, GPUs. Called once, before threads that
// matter.
#pragma once

#include "agent/gpus/report.h"
#include "base/env.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::agent::inline host {

// Fills hostname, netns_inode, uid, kernel, interfaces, cores, memory, GPUs with the login's masks over them, and the
// SSH_CONNECTION addresses. `nvidia`: what NVIDIA's library has told, if it was asked (agent/gpus/gpus.h).
base::Status fill_host_facts(const base::Environment& login_environment, const gpus::GpuReport& nvidia,
                             v1::Hello& hello);

// The interface by which `master_address` is reached, and this host's address on it.
base::Result<v1::Prepared> find_route(const std::string& master_address);

// A bound but not listening TCP port on all addresses: nobody else gets it, and a rank that binds it with SO_REUSEADDR
// (as every TCPStore does) succeeds. Held as long as the fd lives.
base::Result<base::UniqueFd> hold_port();

}  // namespace muster::agent::host
