#include "agent/job/session_stores.h"

#include <fmt/format.h>

#include "agent/host/host_facts.h"
#include "base/descriptor_limit.h"
#include "proto/muster/v1/store_plan.pb.h"

namespace muster::agent::inline job {

SessionStores::SessionStores(base::Loop& loop, const std::set<base::IpAddress>& own, Events events)
    : events_(std::move(events)),
      owner_peers_(loop, PeerOwners::is_ours,
                   [this](const rendezvous::ConnectionEnds& ends) { return stores_.torch_client(ends); }),
      owners_(own, events_.ask_launcher),
      stores_(loop, owners_.check(),
              {.on_problem = events_.on_problem,
               .on_unreachable = events_.on_notice,
               .on_starved =
                   [this] {
                     events_.on_notice(
                         fmt::format("the agent has no file descriptors left (its limit is {}): new connections to the "
                                     "job's stores wait; raise the limit of open files on this host (ulimit -Hn)",
                                     base::descriptor_limit()));
                   },
               .live = events_.live,
               .on_first_collective = events_.on_first_collective}) {}

v1::Prepared SessionStores::prepare(const v1::Prepare& prepare) {
  v1::Prepared answer;
  auto route = find_route(prepare.master_address());
  if (!route.ok()) {
    answer.set_error(fmt::format("cannot reach rank 0's host at {} ({}): check the network between the hosts",
                                 prepare.master_address(), route.status().message()));
    return answer;
  }
  answer = *route;
  secret_ = prepare.session_secret();
  answer.set_session_secret(secret_);
  base::Status prepared = stores_.open(prepare, answer);
  if (prepared.ok()) prepared = reserve_master_port(prepare, answer);
  if (prepared.ok()) prepared = reserve_more_ports(prepare, answer);
  open_owner_port(prepare, answer);
  if (!prepared.ok()) answer.set_error(prepared.message());
  return answer;
}

base::Status SessionStores::reserve_master_port(const v1::Prepare& prepare, v1::Prepared& answer) {
  if (!prepare.hold_master_port() || prepare.serve_torch()) return base::ok_status();
  MUSTER_ASSIGN_OR_RETURN(master_port_, hold_port());
  MUSTER_ASSIGN_OR_RETURN(const std::uint16_t port, base::local_port(master_port_.get()));
  answer.set_master_port(port);
  return base::ok_status();
}

base::Status SessionStores::reserve_more_ports(const v1::Prepare& prepare, v1::Prepared& answer) {
  for (int i = 0; i < prepare.hold_ports(); ++i) {
    MUSTER_ASSIGN_OR_RETURN(base::UniqueFd held, hold_port());
    MUSTER_ASSIGN_OR_RETURN(const std::uint16_t port, base::local_port(held.get()));
    answer.add_held_ports(port);
    more_ports_.push_back(std::move(held));
  }
  return base::ok_status();
}

// If the port cannot be opened, only the launcher can answer questions about peers on other hosts. A job of one host
// has no such peers.
void SessionStores::open_owner_port(const v1::Prepare& prepare, v1::Prepared& answer) {
  const auto master = base::IpAddress::parse(prepare.master_address());
  if (secret_.empty() || !master.ok() || master->is_loopback()) return;
  const auto port = owner_peers_.open(secret_);
  if (!port.ok()) return events_.on_problem(port.status());
  answer.set_owner_port(*port);
}

void SessionStores::set_peers(const v1::Launch& launch) {
  owner_peers_.add_peers(launch.peers());
  owners_.ask_others(owner_peers_);
}

base::Status SessionStores::serve_ranks(const v1::Launch& launch) {
  MUSTER_ASSIGN_OR_RETURN(std::optional<StoreTree> tree, tree_of(launch));
  return stores_.serve_ranks(launch, std::move(tree));
}

// Returns this host's place in the tree of the job's hosts. nullopt if they form a star.
base::Result<std::optional<StoreTree>> SessionStores::tree_of(const v1::Launch& launch) {
  if (launch.stores().empty()) return std::optional<StoreTree>();
  v1::StorePlan plan;
  StoreTree tree;
  const bool is_read = plan.ParseFromString(launch.stores());
  tree.shape = {.hosts = plan.hosts(), .fanout = plan.fanout()};
  tree.own = launch.host();
  if (!is_read || !tree.shape.is_valid() || !tree.shape.has(tree.own)) {
    return base::invalid_argument("cannot read the launcher's plan of the job's stores");
  }
  if (!plan.serves_on_held_port()) return std::optional(std::move(tree));
  if (more_ports_.empty()) return base::failed_precondition("this host holds no port for the stores of the job");
  tree.listening = std::move(more_ports_.back());
  more_ports_.pop_back();
  MUSTER_RETURN_IF_ERROR(base::set_nonblocking(tree.listening.get(), true));
  return std::optional(std::move(tree));
}

void SessionStores::ask_store_wait(const rendezvous::ConnectionEnds& ends,
                                   std::function<void(std::optional<Awaited>)> done) {
  if (auto client = stores_.torch_client(ends)) return done(std::move(client->wait));
  if (stores_.ask_torch_proxy(ends, done)) return;
  owner_peers_.ask_client(ends, [done = std::move(done)](std::optional<StoreClient> client) {
    done(client ? std::move(client->wait) : std::nullopt);
  });
}

v1::GenerationPrepared SessionStores::prepare_generation(const v1::PrepareGeneration& order) {
  owner_peers_.add_peers(order.peers());
  return stores_.prepare_generation(order);
}

base::Status SessionStores::begin_generation(const v1::BeginGeneration& order) {
  owner_peers_.add_peers(order.peers());
  return stores_.begin_generation(order);
}

}  // namespace muster::agent::job
