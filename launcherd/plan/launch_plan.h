// From what the hosts said of themselves to what each is told to start. Pure: no I/O, no threads.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/env.h"
#include "base/net.h"
#include "base/status.h"
#include "model/job_event.h"
#include "model/job_spec.h"
#include "model/placement.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::launcherd::inline plan {

// One host that is up, by agent index.
struct HostFacts {
  v1::Hello hello;
  bool local = false;                               // started without ssh
  std::vector<base::IpAddress> launcher_addresses;  // of this machine on the way to the host, best first
  std::optional<base::IpAddress> host_address;      // of the host on that way
  v1::Prepared prepared;                            // filled after Prepare
};

bool has_address(const v1::Hello& hello, const std::string& address);

// True if the user said by which networks or interfaces the ranks talk.
bool is_network_chosen(const model::JobSpec& job);
// Of the host's interfaces the first that the user's choice allows; interfaces that he named count in his order.
// NOT_FOUND: none; one sentence without the host's name.
base::Result<v1::NetworkInterface> choose_interface(const v1::Hello& hello, const model::JobSpec& job);

// Its ranks may be given GPUs: what the hosts know of theirs matters.
bool gives_gpus(const model::JobSpec& job);

// Somebody tells there who uses the GPUs: the agent waits after its job until they have released the memory.
bool tells_gpu_users(const v1::Hello& hello);
// So it may where they did not tell at the agent's start: it asks again.
bool may_wait_for_gpus(const v1::Hello& hello);

// The address by which the other hosts reach the host of rank 0 (facts[0]). One host: loopback, unless the user chose.
base::Result<std::string> choose_master_address(const std::vector<HostFacts>& facts, const model::JobSpec& job);

// What is the same of all names of one host, whoever logs in there: host name, network namespace, first address.
std::string host_identity(const v1::Hello& hello);

// Host entries that are one host, with the same uid: for each entry the index of the first entry that is the same host;
// its own index if it is alone.
std::vector<int> find_same_hosts(const std::vector<HostFacts>& facts);

// Which start of which job.
struct Attempt {
  std::string job_id;
  int number = 0;  // 0: the first
  // The ranks are some of a job: they also speak with ranks of other hosts than theirs.
  bool has_peers_elsewhere = false;
};

struct LaunchPlan {
  std::vector<v1::Launch> hosts;           // as those of the placement
  std::vector<model::BoundRank> bindings;  // by rank
  std::vector<std::string> warnings;       // what a user may not have meant
};

// The launcher's variables and the rank's own ones, cores, GPUs and OMP_NUM_THREADS, for every host of `placement`.
// INVALID_ARGUMENT: a host is not such that its ranks can be pinned as the job wants it; names the first one.
base::Result<LaunchPlan> plan_launch(const model::JobSpec& job, const model::Placement& placement,
                                     const std::vector<HostFacts>& facts, const Attempt& attempt,
                                     const std::string& master_address, const base::Environment& launcher_environment);

}  // namespace muster::launcherd::plan
