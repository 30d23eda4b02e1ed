// Computes what each host must start from what the hosts report about themselves.
//
// Thread: any. Pure functions without I/O.
#pragma once

#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/env.h"
#include "base/net.h"
#include "base/status.h"
#include "model/job_event.h"
#include "model/job_spec.h"
#include "model/placement.h"
#include "model/trace_context.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::launcherd::inline plan {

// The facts about one host that is up.
struct HostFacts {
  v1::Hello hello;
  bool local = false;                               // true if started without ssh
  std::vector<base::IpAddress> launcher_addresses;  // this machine's addresses on the connection, best first
  std::optional<base::IpAddress> host_address;      // the host's address on the connection to the launcher
  v1::Prepared prepared;                            // set after Prepare
};

// Borrows the facts about several hosts, because a Hello may be long.
class HostFactsList {
 public:
  explicit HostFactsList(std::vector<const HostFacts*> facts) : facts_(std::move(facts)) {}
  HostFactsList(const std::vector<HostFacts>& facts) {  // NOLINT(google-explicit-constructor)
    for (const HostFacts& each : facts) facts_.push_back(&each);
  }
  HostFactsList(std::initializer_list<HostFacts> facts) {
    for (const HostFacts& each : facts) facts_.push_back(&each);
  }

  std::size_t size() const { return facts_.size(); }
  const HostFacts& at(std::size_t index) const { return *facts_.at(index); }

 private:
  std::vector<const HostFacts*> facts_;
};

// Describes the host to the agents of the job's other hosts.
v1::JobPeer peer_of(const HostFacts& fact);

// Returns the address at which other hosts reach this host's ranks, once the host is prepared.
std::string rank_address(const HostFacts& fact, const model::JobSpec& job);

// True if one of the host's interfaces has the address.
bool has_address(const v1::Hello& hello, const std::string& address);

// True if the user chose the networks or interfaces that the ranks use.
bool is_network_chosen(const model::JobSpec& job);
// Returns the host's first interface that the user's choice allows, in the order of the user's names.
// NOT_FOUND: no interface is allowed. The message is one sentence without the host's name.
base::Result<v1::NetworkInterface> choose_interface(const v1::Hello& hello, const model::JobSpec& job);

// True if the job's ranks may get GPUs. Only then do the hosts' GPUs matter.
bool gives_gpus(const model::JobSpec& job);

// True if a driver or the kernel of the host reports which processes use the GPUs. The agent then waits after its job
// until these processes have released the memory.
bool reports_gpu_users(const v1::Hello& hello);
// True if the agent may wait for GPU memory. The agent checks again later, even if it reported no users at its start.
bool may_wait_for_gpus(const v1::Hello& hello);

// Returns the address at which the other hosts reach the host of rank 0 (facts[0]). If the job has one host, the
// address is loopback, unless the user chose a network, or other hosts may join the job (JobSpec::live).
// UNAVAILABLE: the host has only a loopback address.
base::Result<std::string> choose_master_address(const HostFactsList& facts, const model::JobSpec& job);

// Returns a text that identifies a host. All names and all users of a host get the same text. It contains the host
// name, the network namespace and the first address.
std::string host_identity(const v1::Hello& hello);

// Finds entries that mean the same host with the same uid. Returns for each entry the index of the first such entry. A
// host with one entry gets its own index.
std::vector<int> find_same_hosts(const HostFactsList& facts);

// One start of one job.
struct Attempt {
  std::string job_id;
  int number = 0;    // 0 for the first attempt
  int restarts = 0;  // earlier attempts that count against JobSpec::max_restarts
  // True if the ranks are a part of a job and also communicate with ranks on other hosts.
  bool has_peers_elsewhere = false;
  // Ranks of a job whose ranks change that run already, with what they are bound to. The others join. A rank that is
  // leaving has the local rank -1.
  std::vector<model::BoundRank> running{};
  // The span of the job, in which each rank gets a span of its own. nullopt if the job has no trace.
  std::optional<model::TraceContext> trace{};
};

struct LaunchPlan {
  std::vector<v1::Launch> hosts;           // in the order of the placement
  std::vector<model::BoundRank> bindings;  // by rank
  std::vector<std::string> warnings;       // settings that the user may not have intended
};

// Plans the start for every host of `placement`: cores, GPUs and OMP_NUM_THREADS of each rank, the launcher's variables
// and each rank's own variables. Makes the messages one by one, because those of all hosts are large.
//
// It borrows the arguments of make().
class LaunchPlanner {
 public:
  // INVALID_ARGUMENT: the ranks cannot be pinned as the job requests. The message names the first such host.
  static base::Result<LaunchPlanner> make(const model::JobSpec& job, const model::Placement& placement,
                                          HostFactsList facts, const Attempt& attempt,
                                          const std::string& master_address,
                                          const base::Environment& launcher_environment);
  LaunchPlanner(LaunchPlanner&& other) noexcept;
  LaunchPlanner& operator=(LaunchPlanner&& other) noexcept;
  ~LaunchPlanner();

  const std::vector<model::BoundRank>& bindings() const;  // by rank
  const std::vector<std::string>& warnings() const;       // settings that the user may not have intended
  v1::Launch launch(std::size_t host) const;              // by place

 private:
  class Planner;
  explicit LaunchPlanner(std::unique_ptr<Planner> planner);
  std::unique_ptr<Planner> planner_;
};

// Does the same as a LaunchPlanner, for a few hosts: makes all messages at once.
base::Result<LaunchPlan> plan_launch(const model::JobSpec& job, const model::Placement& placement,
                                     const std::vector<HostFacts>& facts, const Attempt& attempt,
                                     const std::string& master_address, const base::Environment& launcher_environment);

}  // namespace muster::launcherd::plan
