#include "agent/job/job_stores.h"

#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "agent/job/collective_report.h"
#include "base/net.h"
#include "base/strings.h"
#include "model/runtime.h"
#include "rendezvous/horovod_cache.h"
#include "rendezvous/horovod_loopback.h"
#include "rendezvous/horovod_origin.h"
#include "rendezvous/horovod_server.h"
#include "rendezvous/horovod_source.h"
#include "rendezvous/horovod_store.h"
#include "rendezvous/horovod_tcp_upstream.h"
#include "rendezvous/host_meetings.h"
#include "rendezvous/memory_store.h"
#include "rendezvous/stream_uplink.h"
#include "rendezvous/tcp_store_proxy.h"
#include "rendezvous/tcp_store_server.h"
#include "rendezvous/tcp_store_streams.h"

namespace muster::agent::inline job {
namespace {

constexpr int kStoreBacklog = 4096;

rendezvous::HorovodPlan plan_of(const google::protobuf::RepeatedPtrField<v1::HorovodHost>& named) {
  std::vector<rendezvous::HorovodHost> hosts;
  for (const v1::HorovodHost& host : named) {
    hosts.push_back({host.name(), static_cast<std::size_t>(std::max(0, host.local_size()))});
  }
  return rendezvous::make_horovod_plan(hosts);
}

std::set<int> local_ranks_of(const google::protobuf::RepeatedPtrField<v1::LiveMember>& members) {
  std::set<int> local_ranks;
  for (const v1::LiveMember& member : members) {
    if (member.rank() >= 0) local_ranks.insert(member.local_rank());
  }
  return local_ranks;
}

}  // namespace

// The keys of one generation on this host. A job whose ranks are fixed has one generation.
// Each member may use the members before it, so keep this order.
class JobStores::Generation {
 public:
  // Returns the keys that the HTTP server must use.
  rendezvous::HorovodKeys* front() { return watch ? &*watch : all(); }
  rendezvous::HorovodKeys* all() {
    if (keys) return &*keys;
    return cache ? &*cache : nullptr;
  }

  int number = 0;
  std::optional<rendezvous::HorovodStore> store;  // this one and the next two are set only on rank 0's host
  std::optional<rendezvous::HorovodStoreKeys> keys;
  std::optional<rendezvous::HorovodStoreSource> source;
  std::optional<rendezvous::HostMeetings> meetings;        // set only in a tree of hosts
  std::optional<rendezvous::HorovodTcpUpstream> upstream;  // this one and the next are set only on the other hosts
  std::optional<rendezvous::HorovodCache> cache;
  std::optional<rendezvous::StreamUplink> streams;        // set only in a tree, and not on rank 0's host
  std::optional<rendezvous::HorovodOrigin> origin;        // set only if other hosts connect to this one
  std::optional<rendezvous::HorovodLoopbackWatch> watch;  // set only in a job of several hosts
};

class JobStores::Horovod {
 public:
  base::UniqueFd listening;  // the ranks connect here; moves to the server
  std::uint16_t port = 0;
  std::optional<LiveKeys> live;  // only in a job whose ranks change
  std::unique_ptr<Generation> now = std::make_unique<Generation>();
  std::unique_ptr<Generation> next;        // from PrepareGeneration to BeginGeneration
  std::optional<CollectiveReport> report;  // stands before the keys if the launcher wants the report
  std::optional<rendezvous::HorovodServer> server;
};

class JobStores::Torch {
 public:
  rendezvous::MemoryStore store;
  std::unique_ptr<rendezvous::TcpStoreServer> server;
  std::optional<rendezvous::TcpStoreStreams> streams;  // clients of other hosts, in a tree of hosts
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
    MUSTER_ASSIGN_OR_RETURN(const std::uint16_t port, open_store(prepare.horovod_hosts(), *horovod_->now));
    answer.set_horovod_port(port);
  }
  if (!prepare.serve_torch()) return base::ok_status();
  return prepare.hold_master_port() ? open_torch(answer) : open_torch_port(answer);
}

// This is not rank 0's host: its ranks connect here, and the tree carries their bytes to the store.
base::Status JobStores::open_torch_port(v1::Prepared& answer) {
  MUSTER_ASSIGN_OR_RETURN(const base::IpAddress own, base::IpAddress::parse("127.0.0.1"));
  MUSTER_ASSIGN_OR_RETURN(torch_port_, base::listen_on(own, 0, kStoreBacklog));
  MUSTER_ASSIGN_OR_RETURN(const std::uint16_t port, base::local_port(torch_port_.get()));
  answer.set_master_port(port);
  return base::ok_status();
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

// Returns the port for the other hosts' caches, 0 if there are no other hosts.
base::Result<std::uint16_t> JobStores::open_store(const HorovodHosts& hosts, Generation& generation) {
  generation.store.emplace(plan_of(hosts));
  generation.keys.emplace(*generation.store);
  if (hosts.size() <= 1) return std::uint16_t{0};
  MUSTER_ASSIGN_OR_RETURN(base::UniqueFd listening, base::listen_any(0, kStoreBacklog));
  MUSTER_ASSIGN_OR_RETURN(const std::uint16_t port, base::local_port(listening.get()));
  generation.source.emplace(*generation.store);
  generation.origin.emplace(loop_, std::move(listening), *generation.source, check_, origin_limits());
  return port;
}

rendezvous::HorovodOriginLimits JobStores::origin_limits() const {
  rendezvous::HorovodOriginLimits limits;
  limits.listener.on_starved = events_.on_starved;
  limits.on_problem = events_.on_problem;
  return limits;
}

base::Status JobStores::open_cache(const std::string& host, int port, Generation& generation) {
  MUSTER_ASSIGN_OR_RETURN(const base::IpAddress address, base::IpAddress::parse(host));
  generation.upstream.emplace(loop_, address, static_cast<std::uint16_t>(port), check_);
  generation.cache.emplace(*generation.upstream);
  return base::ok_status();
}

// Connects the links above and below this host by the fences. A host with children serves its cache to them.
void JobStores::join_tree(StoreTree tree, Generation& generation) {
  if (tree.listening.valid() && generation.cache) {
    generation.origin.emplace(loop_, std::move(tree.listening), *generation.cache, check_, origin_limits());
  }
  Generation* const at = &generation;
  generation.meetings.emplace(
      tree.shape, tree.own,
      rendezvous::HostMeetings::Links{
          .to_parent =
              [at](std::string_view name, std::uint64_t number, rendezvous::HorovodValue part) {
                if (at->upstream) at->upstream->send_entry(name, number, std::move(part));
              },
          .to_child =
              [at](int child, std::string_view name, std::uint64_t number, rendezvous::HorovodValue part) {
                if (at->origin) at->origin->send_met(child, name, number, std::move(part));
              }});
  if (generation.keys) generation.keys->use_meetings(*generation.meetings);
  if (generation.cache) generation.cache->use_meetings(*generation.meetings);
  if (generation.upstream) generation.upstream->use_meetings(*generation.meetings);
  if (generation.origin) generation.origin->use_meetings(*generation.meetings);
  join_streams(tree.own, generation);
}

// Connects the links by the streams of torch's clients.
void JobStores::join_streams(int own, Generation& generation) {
  if (torch_ && generation.origin) {
    torch_->streams.emplace(loop_, torch_->server->hub(), events_.on_problem);
    generation.origin->use_streams(*torch_->streams);
  }
  if (!generation.upstream) return;
  Generation* const at = &generation;
  generation.streams.emplace([at](const rendezvous::HorovodFrame& frame, rendezvous::HorovodValue value) {
    return at->upstream->send_frame(frame, std::move(value));
  });
  generation.upstream->use_streams(*generation.streams);
  if (generation.origin) generation.origin->use_streams(*generation.streams);
  if (!torch_port_.valid()) return;
  rendezvous::TcpStoreProxyConfig config;
  config.owner_check = check_;
  config.client = fmt::format("host {}", own);
  config.listener.on_starved = events_.on_starved;
  config.on_problem = events_.on_problem;
  torch_proxy_ = std::make_unique<rendezvous::TcpStoreProxy>(loop_, std::move(torch_port_), *generation.streams,
                                                             std::move(config));
}

// Completes the generation with what all hosts have.
void JobStores::watch_addresses(Generation& generation) {
  if (!generation.origin && !generation.upstream) return;
  generation.watch.emplace(*generation.all(), [this](const std::string&) {
    events_.on_unreachable(
        "Horovod listens at a loopback address here, which the other hosts cannot reach. It takes the address of "
        "this "
        "host's name; map that name to a network address in /etc/hosts (Debian maps it to 127.0.1.1)");
  });
}

// Uses the store with which the job began.
base::Status JobStores::use_first_keys(const v1::Launch& launch, std::optional<StoreTree> tree) {
  Generation& now = *horovod_->now;
  if (!now.keys) MUSTER_RETURN_IF_ERROR(open_cache(launch.horovod_address(), launch.horovod_port(), now));
  if (tree) join_tree(std::move(*tree), now);
  watch_addresses(now);
  if (horovod_->live) horovod_->live->use(*now.front(), local_ranks_of(launch.live_members()));
  return base::ok_status();
}

base::Status JobStores::serve_ranks(const v1::Launch& launch, std::optional<StoreTree> tree) {
  if (horovod_ == nullptr || horovod_->server) return base::ok_status();
  if (!launch.live_members().empty()) horovod_->live.emplace(events_.live);
  if (launch.joins() && horovod_->live) {  // the first generation here brings its store
    horovod_->live->hold(local_ranks_of(launch.live_members()));
  } else {
    MUSTER_RETURN_IF_ERROR(use_first_keys(launch, std::move(tree)));
  }
  rendezvous::HorovodKeys* keys = horovod_->live ? &*horovod_->live : horovod_->now->front();
  if (launch.reports_first_collective() && events_.on_first_collective) {
    keys = &horovod_->report.emplace(*keys, events_.on_first_collective);
  }
  rendezvous::HorovodServerLimits limits;
  limits.listener.on_starved = events_.on_starved;
  horovod_->server.emplace(loop_, std::move(horovod_->listening), *keys, check_, std::move(limits));
  return base::ok_status();
}

v1::GenerationPrepared JobStores::prepare_generation(const v1::PrepareGeneration& order) {
  v1::GenerationPrepared answer;
  answer.set_generation(order.generation());
  if (live() == nullptr) {
    answer.set_error("this host serves no ranks of a job whose ranks change");
    return answer;
  }
  horovod_->next = std::make_unique<Generation>();
  horovod_->next->number = order.generation();
  const auto port = open_store(order.horovod_hosts(), *horovod_->next);
  if (port.ok()) answer.set_horovod_port(*port);
  if (!port.ok()) answer.set_error(port.status().message());
  return answer;
}

base::Status JobStores::begin_generation(const v1::BeginGeneration& order) {
  if (live() == nullptr) return base::failed_precondition("no rank here belongs to a job whose ranks change");
  std::unique_ptr<Generation> next = std::exchange(horovod_->next, nullptr);
  if (!order.horovod_address().empty()) {
    next = std::make_unique<Generation>();
    next->number = order.generation();
    MUSTER_RETURN_IF_ERROR(open_cache(order.horovod_address(), order.horovod_port(), *next));
  } else if (next == nullptr || next->number != order.generation()) {
    return base::failed_precondition("the store of generation {} is not open", order.generation());
  }
  watch_addresses(*next);
  live()->use(*next->front(), local_ranks_of(order.members()), order.generation());
  horovod_->now = std::move(next);
  return base::ok_status();
}

std::optional<StoreClient> JobStores::torch_client(const rendezvous::ConnectionEnds& ends) const {
  if (torch_ == nullptr) return std::nullopt;
  const auto client = torch_->server->client_at(ends.peer, ends.peer_port);
  if (!client) return std::nullopt;
  if (!client->wait) return StoreClient();
  return StoreClient{Awaited{.what = rendezvous::describe(*client->wait), .since = client->wait->since}};
}

bool JobStores::ask_torch_proxy(const rendezvous::ConnectionEnds& ends,
                                const std::function<void(std::optional<Awaited>)>& done) const {
  return torch_proxy_ != nullptr &&
         torch_proxy_->ask_wait(ends, [done](const std::optional<rendezvous::StreamWait>& wait) {
           if (!wait) return done(std::nullopt);
           done(Awaited{.what = base::printable(wait->what), .since = base::monotonic_now() - wait->age});
         });
}

void JobStores::watch_missing(rendezvous::HorovodServer::OnMissing on_missing) {
  if (horovod_ != nullptr && horovod_->server) horovod_->server->watch_missing(std::move(on_missing));
}

LiveKeys* JobStores::live() const {
  return horovod_ != nullptr && horovod_->live ? &*horovod_->live : nullptr;
}

rendezvous::HorovodKeys* JobStores::keys() const {
  if (horovod_ == nullptr) return nullptr;
  return horovod_->live ? &*horovod_->live : horovod_->now->all();
}

std::vector<std::pair<std::string, std::string>> JobStores::variables() const {
  if (horovod_ == nullptr || !sets_horovod_variables_) return {};
  return {{"HOROVOD_GLOO_RENDEZVOUS_ADDR", "127.0.0.1"},
          {"HOROVOD_GLOO_RENDEZVOUS_PORT", std::to_string(horovod_->port)}};
}

}  // namespace muster::agent::job
