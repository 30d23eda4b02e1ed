#include "agent/job/job_stores.h"

#include <optional>

#include "base/net.h"
#include "model/runtime.h"
#include "rendezvous/horovod_cache.h"
#include "rendezvous/horovod_loopback.h"
#include "rendezvous/horovod_origin.h"
#include "rendezvous/horovod_server.h"
#include "rendezvous/horovod_store.h"
#include "rendezvous/horovod_tcp_upstream.h"
#include "rendezvous/memory_store.h"
#include "rendezvous/tcp_store_server.h"

namespace muster::agent::inline job {
namespace {

constexpr int kStoreBacklog = 4096;

rendezvous::HorovodPlan plan_of(const v1::Prepare& prepare) {
  std::vector<rendezvous::HorovodHost> hosts;
  for (const v1::HorovodHost& host : prepare.horovod_hosts()) {
    hosts.push_back({host.name(), static_cast<std::size_t>(std::max(0, host.local_size()))});
  }
  return rendezvous::make_horovod_plan(hosts);
}

}  // namespace

// Each member may use the members before it, so keep this order.
class JobStores::Horovod {
 public:
  base::UniqueFd listening;  // the ranks connect here; moves to the server
  std::uint16_t port = 0;
  std::optional<rendezvous::HorovodStore> store;  // this one and the next two are set only on rank 0's host
  std::optional<rendezvous::HorovodStoreKeys> keys;
  std::optional<rendezvous::HorovodOrigin> origin;
  std::optional<rendezvous::HorovodTcpUpstream> upstream;  // this one and the next are set only on the other hosts
  std::optional<rendezvous::HorovodCache> cache;
  std::optional<rendezvous::HorovodLoopbackWatch> watch;  // set only in a job of several hosts
  std::optional<rendezvous::HorovodServer> server;
};

class JobStores::Torch {
 public:
  rendezvous::MemoryStore store;
  std::unique_ptr<rendezvous::TcpStoreServer> server;
};

JobStores::JobStores(base::Loop& loop, rendezvous::OwnerCheck check, Events events)
    : loop_(loop), check_(std::move(check)), events_(std::move(events)) {}

JobStores::~JobStores() = default;

base::Status JobStores::open(const v1::Prepare& prepare, v1::Prepared& answer) {
  horovod_ = std::make_unique<Horovod>();
  const auto runtime = model::parse_runtime(prepare.runtime());
  // Set the variables if a newer launcher sends a runtime that this build does not know.
  sets_horovod_variables_ = !runtime.ok() || model::serves(*runtime, model::Runtime::kHorovod);
  // Horovod's client knows IPv4 only.
  MUSTER_ASSIGN_OR_RETURN(const base::IpAddress loopback, base::IpAddress::parse("127.0.0.1"));
  MUSTER_ASSIGN_OR_RETURN(horovod_->listening, base::listen_on(loopback, 0, kStoreBacklog));
  MUSTER_ASSIGN_OR_RETURN(horovod_->port, base::local_port(horovod_->listening.get()));
  if (prepare.serve_horovod()) {
    horovod_->store.emplace(plan_of(prepare));
    horovod_->keys.emplace(*horovod_->store);
    if (prepare.horovod_hosts_size() > 1) {
      MUSTER_ASSIGN_OR_RETURN(base::UniqueFd listening, base::listen_any(0, kStoreBacklog));
      MUSTER_ASSIGN_OR_RETURN(const std::uint16_t port, base::local_port(listening.get()));
      answer.set_horovod_port(port);
      rendezvous::HorovodOriginLimits limits;
      limits.listener.on_starved = events_.on_starved;
      horovod_->origin.emplace(loop_, std::move(listening), *horovod_->store, check_, std::move(limits));
    }
  }
  return prepare.serve_torch() ? open_torch(answer) : base::ok_status();
}

base::Status JobStores::open_torch(v1::Prepared& answer) {
  MUSTER_ASSIGN_OR_RETURN(base::UniqueFd listening, base::listen_any(0, kStoreBacklog));
  MUSTER_ASSIGN_OR_RETURN(const std::uint16_t port, base::local_port(listening.get()));
  torch_ = std::make_unique<Torch>();
  rendezvous::TcpStoreServerConfig config;
  config.owner_check = check_;
  config.on_problem = events_.on_problem;
  config.listener.on_starved = events_.on_starved;
  MUSTER_ASSIGN_OR_RETURN(torch_->server, rendezvous::TcpStoreServer::start(&loop_, std::move(listening),
                                                                            &torch_->store, std::move(config)));
  answer.set_master_port(port);
  return base::ok_status();
}

base::Status JobStores::serve_ranks(const v1::Launch& launch) {
  if (horovod_ == nullptr || horovod_->server) return base::ok_status();
  rendezvous::HorovodKeys* keys = nullptr;
  if (horovod_->keys) {
    keys = &*horovod_->keys;
  } else {
    MUSTER_ASSIGN_OR_RETURN(const base::IpAddress address, base::IpAddress::parse(launch.horovod_address()));
    horovod_->upstream.emplace(loop_, address, static_cast<std::uint16_t>(launch.horovod_port()), check_);
    horovod_->cache.emplace(*horovod_->upstream);
    keys = &*horovod_->cache;
  }
  if (horovod_->origin || horovod_->upstream) {
    horovod_->watch.emplace(*keys, [this](const std::string&) {
      events_.on_unreachable(
          "Horovod listens at a loopback address here, which the other hosts cannot reach. It takes the address of "
          "this "
          "host's name; map that name to a network address in /etc/hosts (Debian maps it to 127.0.1.1)");
    });
    keys = &*horovod_->watch;
  }
  rendezvous::HorovodServerLimits limits;
  limits.listener.on_starved = events_.on_starved;
  horovod_->server.emplace(loop_, std::move(horovod_->listening), *keys, check_, std::move(limits));
  return base::ok_status();
}

rendezvous::HorovodKeys* JobStores::keys() const {
  if (horovod_ == nullptr) return nullptr;
  if (horovod_->keys) return &*horovod_->keys;
  return horovod_->cache ? &*horovod_->cache : nullptr;
}

std::vector<std::pair<std::string, std::string>> JobStores::variables() const {
  if (horovod_ == nullptr || !sets_horovod_variables_) return {};
  return {{"HOROVOD_GLOO_RENDEZVOUS_ADDR", "127.0.0.1"},
          {"HOROVOD_GLOO_RENDEZVOUS_PORT", std::to_string(horovod_->port)}};
}

}  // namespace muster::agent::job
