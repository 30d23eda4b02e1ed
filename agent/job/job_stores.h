// The stores in which a job's ranks meet, as far as they are on this host: on rank 0's host Horovod's keys and, if it
// is asked for, torch's TCPStore; on every host the HTTP server that its own ranks ask for Horovod's keys, which are
// those of rank 0's host, cached.
//
// They live as long as the agent: longer than any rank. Loop thread only.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/loop.h"
#include "base/status.h"
#include "proto/muster/v1/agent.pb.h"
#include "rendezvous/horovod_keys.h"
#include "rendezvous/owner_check.h"

namespace muster::agent::inline job {

class JobStores {
 public:
  struct Events {
    std::function<void(const base::Status&)> on_problem;     // a connection was refused or closed, one sentence
    std::function<void(const std::string&)> on_unreachable;  // what a rank published reaches nobody; a sentence, once
    std::function<void()> on_starved = {};  // new connections wait: this process has no descriptors left
  };

  // `check` and `loop` outlive it.
  JobStores(base::Loop& loop, rendezvous::OwnerCheck check, Events events);
  ~JobStores();
  JobStores(const JobStores&) = delete;
  JobStores& operator=(const JobStores&) = delete;

  // Opens what this host serves and puts its ports into `answer`; before any rank runs.
  base::Status open(const v1::Prepare& prepare, v1::Prepared& answer);
  // The other hosts' ports are known: this host's ranks may come.
  base::Status serve_ranks(const v1::Launch& launch);
  // Of the whole job, for our own ranks' sessions; after serve_ranks(), for as long as this lives. nullptr: not open.
  rendezvous::HorovodKeys* keys() const;
  // For every rank of this host.
  std::vector<std::pair<std::string, std::string>> variables() const;

 private:
  class Horovod;
  class Torch;

  base::Status open_torch(v1::Prepared& answer);

  base::Loop& loop_;
  const rendezvous::OwnerCheck check_;
  const Events events_;
  std::unique_ptr<Horovod> horovod_;
  std::unique_ptr<Torch> torch_;
  bool tells_horovod_ = true;
};

}  // namespace muster::agent::job
