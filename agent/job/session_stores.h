// Prepares a host for a job before its ranks start. It opens the stores in which ranks meet, reserves ports, and
// checks connections to the stores.
//
// Owner: the job's session.
// Thread: the loop thread only.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/job/job_stores.h"
#include "agent/job/owner_peers.h"
#include "agent/job/peer_owners.h"
#include "base/loop.h"
#include "base/net.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::agent::inline job {

class SessionStores {
 public:
  struct Events {
    std::function<void(v1::OwnerQuestion)> ask_launcher;           // the question is lost while there is no launcher
    std::function<void(const base::Status&)> on_problem;           // for the log: one sentence
    std::function<void(const std::string&)> on_notice;             // a sentence for the user
    LiveKeys::Events live = {};                                    // only for jobs whose ranks change
    std::function<void(int generation)> on_first_collective = {};  // as JobStores::Events
  };

  // `own` holds the addresses of this host.
  SessionStores(base::Loop& loop, const std::set<base::IpAddress>& own, Events events);
  SessionStores(const SessionStores&) = delete;
  SessionStores& operator=(const SessionStores&) = delete;

  // Finds the route to rank 0's host, opens the stores and reserves ports. The answer has the error, if any.
  v1::Prepared prepare(const v1::Prepare& prepare);
  // Sets which other hosts may connect. Call it at Launch, before serve_ranks().
  void set_peers(const v1::Launch& launch);
  base::Status serve_ranks(const v1::Launch& launch);

  // These two begin a generation of a job whose ranks change (JobStores).
  v1::GenerationPrepared prepare_generation(const v1::PrepareGeneration& order);
  base::Status begin_generation(const v1::BeginGeneration& order);
  LiveKeys* live() const { return stores_.live(); }

  void owner_answered(const v1::OwnerAnswer& answer) { owners_.answered(answer); }
  // Call this when a launcher is connected, also after a cut.
  void ask_again() { owners_.ask_again(); }
  // Call this when the job is over. Frees MASTER_PORT for other programs.
  void release_master_port() { master_port_.reset(); }

  // Returns the secret of this start of the job, which its ranks share. Empty if the launcher has sent none.
  const std::string& secret() const { return secret_; }
  // Returns the keys of the whole job (see JobStores).
  rendezvous::HorovodKeys* keys() const { return stores_.keys(); }
  std::vector<std::pair<std::string, std::string>> variables() const { return stores_.variables(); }

  // Passes on what the client of torch's TCPStore with this connection waits for. The ends are those that the store's
  // host sees, which may be another one. `done` is called once, from the loop or within this call. nullopt if it waits
  // for nothing, or if that cannot be known.
  void ask_store_wait(const rendezvous::ConnectionEnds& ends, std::function<void(std::optional<Awaited>)> done);
  void watch_missing(rendezvous::HorovodServer::OnMissing on_missing) { stores_.watch_missing(std::move(on_missing)); }

 private:
  base::Status reserve_master_port(const v1::Prepare& prepare, v1::Prepared& answer);
  base::Status reserve_more_ports(const v1::Prepare& prepare, v1::Prepared& answer);
  base::Result<std::optional<StoreTree>> tree_of(const v1::Launch& launch);
  void open_owner_port(const v1::Prepare& prepare, v1::Prepared& answer);

  const Events events_;
  base::UniqueFd master_port_;
  std::vector<base::UniqueFd> more_ports_;
  OwnerPeers owner_peers_;
  PeerOwners owners_;
  JobStores stores_;
  std::string secret_;
};

}  // namespace muster::agent::job
