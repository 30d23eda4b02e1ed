// The stores of a job that run on this host; the job's ranks meet in them.
// Rank 0's host has the store of Horovod's keys and, on request, torch's TCPStore.
// Every host has an HTTP server which its own ranks ask for Horovod's keys. It caches the keys of rank 0's host.
// If the hosts form a tree (rendezvous/host_tree.h), a cache connects to the host above it. Fences go up and down the
// tree, too, and so do the bytes of torch's clients: each host serves TCPStore to its own ranks and forwards it.
//
// Lifetime: it lives longer than any rank of the job.
// Thread: the loop thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/job/awaited.h"
#include "agent/job/live_keys.h"
#include "base/loop.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "proto/muster/v1/agent.pb.h"
#include "rendezvous/horovod_keys.h"
#include "rendezvous/horovod_origin.h"
#include "rendezvous/horovod_server.h"
#include "rendezvous/host_tree.h"
#include "rendezvous/owner_check.h"

namespace muster::rendezvous {
class TcpStoreProxy;
}

namespace muster::agent::inline job {

// This host's place in the tree of the job's hosts.
struct StoreTree {
  rendezvous::HostTree shape;
  int own = 0;
  base::UniqueFd listening{};  // bound, for the children; invalid on rank 0's host and on hosts without children
};

class JobStores {
 public:
  struct Events {
    std::function<void(const base::Status&)> on_problem;  // a connection was refused or closed; one sentence
    // Called once, with one sentence: other hosts cannot reach an address that a rank published.
    std::function<void(const std::string&)> on_unreachable;
    std::function<void()> on_starved = {};  // new connections wait, because this process has no descriptors left
    LiveKeys::Events live = {};             // only for jobs whose ranks change
    // Called once for each generation after the first whose ranks use libmuster, if Launch.reports_first_collective.
    std::function<void(int generation)> on_first_collective = {};
  };

  // `check` and `loop` outlive this object.
  JobStores(base::Loop& loop, rendezvous::OwnerCheck check, Events events);
  ~JobStores();
  JobStores(const JobStores&) = delete;
  JobStores& operator=(const JobStores&) = delete;

  // Opens the ports of this host's stores and puts them into `answer`. Call it before any rank runs.
  base::Status open(const v1::Prepare& prepare, v1::Prepared& answer);
  // Serves this host's ranks. Call it when the other hosts' ports are known. Ranks that join a job that runs are held
  // until begin_generation().
  base::Status serve_ranks(const v1::Launch& launch, std::optional<StoreTree> tree = {});
  // Opens the store of a generation in which this host has rank 0. The answer has the error, if any.
  v1::GenerationPrepared prepare_generation(const v1::PrepareGeneration& order);
  // Uses the keys of that generation from now on.
  // FAILED_PRECONDITION: the generation's store was not prepared here.
  base::Status begin_generation(const v1::BeginGeneration& order);
  LiveKeys* live() const;  // nullptr in a job whose ranks are fixed, and before serve_ranks()
  // Returns the keys of the whole job, for the other servers of this host (RankServers). Valid from serve_ranks()
  // until this object is destroyed. nullptr if the stores are not open.
  rendezvous::HorovodKeys* keys() const;
  // Returns the variables that every rank of this host gets.
  std::vector<std::pair<std::string, std::string>> variables() const;

  // Returns the client of torch's TCPStore with this connection. nullopt if this host serves no such connection.
  std::optional<StoreClient> torch_client(const rendezvous::ConnectionEnds& ends) const;
  // Asks rank 0's host what the client with this connection waits for, if this host forwards torch's store. Returns
  // false if it does not forward this connection; `done` is not called then.
  bool ask_torch_proxy(const rendezvous::ConnectionEnds& ends,
                       const std::function<void(std::optional<Awaited>)>& done) const;
  // Watches the keys of Horovod's store that ranks of this host ask for and that do not exist. An empty function ends
  // the watch.
  void watch_missing(rendezvous::HorovodServer::OnMissing on_missing);

 private:
  class Generation;
  class Horovod;
  class Torch;
  using HorovodHosts = google::protobuf::RepeatedPtrField<v1::HorovodHost>;

  base::Result<std::uint16_t> open_store(const HorovodHosts& hosts, Generation& generation);
  base::Status open_cache(const std::string& host, int port, Generation& generation);
  base::Status use_first_keys(const v1::Launch& launch, std::optional<StoreTree> tree);
  void join_tree(StoreTree tree, Generation& generation);
  void join_streams(int own, Generation& generation);
  rendezvous::HorovodOriginLimits origin_limits() const;
  void watch_addresses(Generation& generation);
  base::Status open_torch(v1::Prepared& answer);
  base::Status open_torch_port(v1::Prepared& answer);

  base::Loop& loop_;
  const rendezvous::OwnerCheck check_;
  const Events events_;
  std::unique_ptr<Torch> torch_;  // only on rank 0's host; other hosts' links use it
  std::unique_ptr<Horovod> horovod_;
  base::UniqueFd torch_port_;                               // listens for this host's ranks; moves to torch_proxy_
  std::unique_ptr<rendezvous::TcpStoreProxy> torch_proxy_;  // only in a tree of hosts; uses the links of horovod_
  bool sets_horovod_variables_ = true;
};

}  // namespace muster::agent::job
