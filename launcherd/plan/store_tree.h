// Plans the tree in which a job's hosts share keys and fences (rendezvous/host_tree.h). A job of few hosts, and a job
// whose ranks change, has no tree: each host connects to rank 0's host.
//
// Thread: any. Pure functions without I/O.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/env.h"
#include "base/status.h"
#include "launcherd/plan/launch_plan.h"
#include "model/job_spec.h"
#include "rendezvous/host_tree.h"

namespace muster::launcherd::inline plan {

// Returns how many hosts connect to one: MUSTER_STORE_FANOUT, else the default. Jobs of more hosts have a tree.
// INVALID_ARGUMENT: the variable is no such number.
base::Result<int> store_fanout(const base::Environment& launcher_environment);

// Returns the tree of a job with so many hosts. Each host with children, except host 0, must hold a port for them.
std::optional<rendezvous::HostTree> store_tree(const model::JobSpec& job, std::size_t hosts,
                                               const base::Environment& launcher_environment);

// Returns the tree if all hosts are prepared for it. They are not if an older launcherd prepared them.
std::optional<rendezvous::HostTree> prepared_store_tree(const model::JobSpec& job, const model::Placement& placement,
                                                        const HostFactsList& facts,
                                                        const base::Environment& launcher_environment);

// True if each host of a tree serves torch's TCPStore to its own ranks. Their MASTER_ADDR is then 127.0.0.1.
// MUSTER_TORCH_STORE=rank0 keeps rank 0's address.
bool serves_torch_on_each_host(const model::JobSpec& job, const base::Environment& launcher_environment);

// Adds to `prepare` what a host other than rank 0's needs in the tree: a port for its children, and one for its ranks'
// clients of TCPStore. Call it after the other ports are set.
void prepare_for_tree(const rendezvous::HostTree& tree, int host, bool serves_torch, v1::Prepare& prepare);

// Sets the tree in `launch`, and the host above in its Horovod address. Launch.host is set already.
void set_store_tree(const rendezvous::HostTree& tree, const HostFactsList& facts, v1::Launch& launch);

// Tells a rank whose MASTER_ADDR is its own host the address of rank 0's host.
void put_master_address(const std::string& address, v1::LaunchRank& rank);

// True if one of the two hosts is the other's parent.
bool are_linked(const rendezvous::HostTree& tree, std::size_t a, std::size_t b);

}  // namespace muster::launcherd::plan
