// The whole of Service. Read listen(), accepted() and start_helper() first, then readable() and the on() functions.
// With request_key() and follow_requests(), a host asks another host for a rank's data.

#include "agent/pmix/service.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "agent/pmix/rank_settings.h"
#include "agent/proc/session_dir.h"
#include "base/file.h"
#include "base/net.h"
#include "rendezvous/local_owner.h"

namespace muster::agent::pmix {
namespace {

constexpr int kBacklog = 4096;
constexpr std::string_view kScope = "pmi";  // the scope of the keys; PMI uses it, too

std::string request_key(int rank) {
  return fmt::format("pmix/wish/{}", rank);
}

std::string data_key(int rank) {
  return fmt::format("pmix/data/{}", rank);
}

// The first byte of the value at data_key. After kHas follow the data.
constexpr char kHas = '+';
constexpr char kHasNone = '-';

}  // namespace

Service::Service(base::Loop& loop, rendezvous::HorovodKeys& keys, ServiceJob job, ServiceEvents events)
    : loop_(loop),
      keys_(keys),
      job_(std::move(job)),
      events_(std::move(events)),
      directory_(job_.session_dir + "/pmix"),
      shared_memory_(::access("/dev/shm", W_OK | X_OK) == 0 ? shared_memory_dir(job_.session_dir) : ""),
      fence_(loop, keys, job_.host),
      names_(loop, keys, [this](const NameAnswer& answer) { send(answer); }) {
  if (static_cast<std::size_t>(job_.host) >= job_.placement.hosts.size()) return;
  const std::vector<int>& ranks = job_.placement.hosts[static_cast<std::size_t>(job_.host)].ranks;
  own_.insert(ranks.begin(), ranks.end());
}

Service::~Service() {
  for (const rendezvous::HorovodKeys::WaitId id : waits_) keys_.cancel_wait(id);
}

base::Result<std::unique_ptr<Service>> Service::open(base::Loop& loop, rendezvous::HorovodKeys& keys, ServiceJob job,
                                                     ServiceEvents events) {
  if (job.host < 0 || static_cast<std::size_t>(job.host) >= job.placement.hosts.size()) {
    return base::invalid_argument("the launcher's placement has no host {}", job.host);
  }
  std::unique_ptr<Service> service(new Service(loop, keys, std::move(job), std::move(events)));
  MUSTER_RETURN_IF_ERROR(service->listen());
  return service;
}

base::Status Service::listen() {
  // Make this directory at once, because an mpirun inside a rank searches for it, too. It must be private: its name
  // can be guessed, and any user may write to /dev/shm.
  if (!shared_memory_.empty()) shared_memory_made_ = base::make_private_directory(shared_memory_);
  if (!shared_memory_made_.ok()) shared_memory_.clear();
  MUSTER_ASSIGN_OR_RETURN(const base::IpAddress loopback, base::IpAddress::parse("127.0.0.1"));
  MUSTER_ASSIGN_OR_RETURN(base::UniqueFd listening, base::listen_on(loopback, 0, kBacklog));
  MUSTER_ASSIGN_OR_RETURN(port_, base::local_port(listening.get()));
  listener_ = std::make_unique<rendezvous::CheckedListener>(loop_, std::move(listening),
                                                            rendezvous::allow_local_owner(::geteuid()),
                                                            [this](base::UniqueFd rank) { accepted(std::move(rank)); });
  return base::ok_status();
}

void Service::set_variables(int rank, base::Environment& environment) {
  const std::vector<std::pair<std::string, std::string>> entries = environment.entries();
  for (const auto& [name, value] : entries) {
    if (is_in_the_way(name)) environment.unset(name);
  }
  const AddWorld* const spawned = world_of(rank);
  const RankSettingsInput input{.nspace = spawned != nullptr ? spawned->nspace : job_.nspace,
                                .server = job_.nspace,
                                .rank = spawned != nullptr ? rank - spawned->first : rank,
                                .host = job_.host,
                                .host_name = job_.placement.hosts[static_cast<std::size_t>(job_.host)].name,
                                .port = port_,
                                .directory = directory_,
                                .shared_memory = shared_memory_,
                                .is_crowded = job_.is_crowded,
                                .has_rdma = job_.has_rdma};
  for (const auto& [name, value] : rank_settings(input, environment)) environment.set(name, value);
  if (environment_.empty()) environment_ = environment.to_strings();
}

void Service::accepted(base::UniqueFd rank) {
  if (has_failed_) return;
  if (!socket_) {
    if (const base::Status started = start_helper(); !started.ok()) return fail(started.message());
  }
  std::vector<base::UniqueFd> fds;
  fds.push_back(std::move(rank));
  send(Connection{}, std::move(fds));
}

base::Status Service::start_helper() {
  if (!shared_memory_made_.ok()) {
    events_.on_problem(
        fmt::format("Open MPI itself chooses where its ranks share memory, and that memory may outlive the job: {}",
                    shared_memory_made_.message()));
  }
  MUSTER_RETURN_IF_ERROR(base::make_private_directory(directory_));
  MUSTER_RETURN_IF_ERROR(base::make_private_directory(directory_ + "/ranks"));
  MUSTER_ASSIGN_OR_RETURN(helper_, HelperProcess::start(environment_, directory_, job_.verbose));
  socket_.emplace(helper_.take_socket(), kMaxMessage);
  watch_ = loop_.on_readable(socket_->fd(), [this] { readable(); });
  const std::string& name = job_.placement.hosts[static_cast<std::size_t>(job_.host)].name;
  send(BeginServer{job_.nspace, directory_, name, job_.host});
  send(job_.placement);
  follow_requests();
  return base::ok_status();
}

// Waits for other hosts' requests for data of our ranks. Each rank is requested at most once.
void Service::follow_requests() {
  if (job_.placement.hosts.size() < 2) return;
  for (const int rank : own_) follow_requests_of(rank);
}

void Service::follow_requests_of(int rank) {
  waits_.push_back(keys_.wait(kScope, request_key(rank), [this, rank](const auto& request) {
    if (!request.ok()) return;
    loop_.post(gate_.wrap([this, rank] { send(WantRankData{rank}); }));
  }));
}

void Service::add_world(const AddWorld& world) {
  const auto answer = [&](const std::string& error) {
    loop_.post(gate_.wrap([this, first = world.first, error] { events_.on_world_added(first, error); }));
  };
  if (world.placement.hosts.size() != job_.placement.hosts.size()) return answer("the lists of hosts differ");
  if (has_failed_) return answer("PMIx is not served here");
  // A host whose ranks have not connected has no helper yet. Start it now, because other hosts will ask it.
  if (!socket_) {
    if (const base::Status started = start_helper(); !started.ok()) {
      fail(started.message());
      return answer(started.message());
    }
  }
  worlds_.push_back(world);
  for (const int rank : world.placement.hosts[static_cast<std::size_t>(job_.host)].ranks) {
    own_.insert(world.first + rank);
    if (job_.placement.hosts.size() > 1) follow_requests_of(world.first + rank);
  }
  send(world);
}

void Service::on(const WorldAdded& added) {
  events_.on_world_added(added.first, added.error);
}

const AddWorld* Service::world_of(int rank) const {
  const AddWorld* found = nullptr;
  for (const AddWorld& world : worlds_) {
    if (rank >= world.first && (found == nullptr || world.first > found->first)) found = &world;
  }
  return found;
}

void Service::send(const Command& command, std::vector<base::UniqueFd> fds) {
  if (!socket_) return;
  socket_->send(encode(command), std::move(fds));
  flush();
}

void Service::flush() {
  if (!socket_) return;
  if (const base::Status sent = socket_->flush(); !sent.ok()) return;  // readable() finds the end of the socket
  if (!socket_->wants_to_write()) {
    writable_.cancel();
  } else if (!writable_.armed()) {
    writable_ = loop_.on_writable(socket_->fd(), [this] {
      // Flush from the loop, because flush() may cancel the watch that calls this function.
      loop_.post(gate_.wrap([this] { flush(); }));
    });
  }
}

void Service::catch_up() {
  if (socket_) readable();
}

void Service::readable() {
  if (!socket_) return;
  auto messages = socket_->receive();
  if (!messages.ok()) return lost(messages.status());
  for (const SocketMessage& message : *messages) {
    const auto event = decode_event(message.payload);
    if (!event.ok()) return lost(event.status());
    std::visit([this](const auto& what) { on(what); }, *event);
    if (has_failed_) return;
  }
  if (socket_->peer_gone()) lost(base::ok_status());
}

void Service::lost(const base::Status& why) {
  if (has_failed_) return;
  std::string how = why.message();
  if (why.ok()) {
    how = helper_.reap();
  } else {
    helper_.end();
  }
  const std::vector<int> missing = open_ranks();
  fail(fmt::format("muster-pmix, which serves Open MPI here, was lost: {}", how));
  if (missing.empty()) return;
  events_.on_lost(missing,
                  "muster-pmix, through which its Open MPI ranks find the others, was lost; the ranks were ended");
}

// Stops serving. Ranks that connect later find no server, and their MPI_Init reports that.
void Service::fail(const std::string& sentence) {
  if (std::exchange(has_failed_, true)) return;
  events_.on_problem(sentence);
  // End these objects later, because one of them may be calling this function.
  ending_ = loop_.after(base::Duration::zero(), [this] {
    ending_.cancel();
    watch_.cancel();
    writable_.cancel();
    socket_.reset();
    listener_.reset();
    helper_.end();
  });
}

void Service::on(const Ready& ready) {
  if (!ready.error.empty()) fail(ready.error);
}

bool Service::is_of_this_host(int rank) const {
  return own_.contains(rank);
}

bool Service::is_alone(int rank) const {
  const AddWorld* const spawned = world_of(rank);
  std::size_t size = 0;
  for (const HostRanks& host : (spawned != nullptr ? spawned->placement : job_.placement).hosts) {
    size += host.ranks.size();
  }
  return size == 1;
}

std::vector<int> Service::open_ranks() const {
  std::vector<int> ranks;
  for (const auto& [rank, is_open] : is_open_) {
    if (is_open) ranks.push_back(rank);
  }
  return ranks;
}

void Service::on(const RankConnected& connected) {
  if (!is_of_this_host(connected.rank)) return;
  is_open_[connected.rank] = true;
  events_.on_connected(connected.rank);
}

void Service::on(const RankFinalized& finalized) {
  if (!is_of_this_host(finalized.rank)) return;
  is_open_[finalized.rank] = false;
  events_.on_finalized(finalized.rank);
}

void Service::on(const RankAborted& aborted) {
  if (is_of_this_host(aborted.rank)) events_.on_aborted(aborted.rank, aborted.code);
}

void Service::on(const FenceEntered& entered) {
  open_fences_[entered.id] = {.ranks = entered.ranks, .since = base::monotonic_now()};
  std::deque<FenceEntered>& same = fences_[entered.name];
  same.push_back(entered);
  if (same.size() == 1) enter_next(entered.name);
}

std::optional<base::MonotonicTime> Service::waits_since(int rank) const {
  for (const auto& [id, fence] : open_fences_) {
    if (std::ranges::find(fence.ranks, rank) != fence.ranks.end()) return fence.since;
  }
  return std::nullopt;
}

void Service::enter_next(const std::string& name) {
  FenceEntered& next = fences_[name].front();
  fence_.enter("pmix/" + name, next.hosts, std::move(next.blob), [this, name](const auto& blobs) {
    std::deque<FenceEntered>& same = fences_[name];
    FenceDone done{.id = same.front().id, .is_ok = blobs.ok(), .blob = {}};
    if (blobs.ok()) {
      for (const std::string& blob : *blobs) done.blob += blob;
    } else {
      events_.on_problem(fmt::format("the hosts could not exchange the data that Open MPI's ranks need: {}",
                                     blobs.status().message()));
    }
    open_fences_.erase(done.id);
    same.pop_front();
    const bool has_more = !same.empty();
    send(done);
    // Report the ranks as lost, because Open MPI ignores this error, and the other hosts would wait for ever.
    if (!done.is_ok) {
      events_.on_lost(open_ranks(), "its Open MPI ranks could not exchange the data they need; they were ended");
    }
    if (has_more) {
      enter_next(name);
    } else {
      fences_.erase(name);
    }
  });
}

void Service::on(const RankDataWanted& wanted) {
  keys_.put(kScope, request_key(wanted.rank), rendezvous::make_horovod_value("1"),
            gate_.wrap([this, id = wanted.id](const base::Status& put) {
              if (put.ok()) return;
              events_.on_problem("Open MPI's ranks could not ask for each other: " + put.message());
              found(id, put);
            }));
  waits_.push_back(
      keys_.wait(kScope, data_key(wanted.rank), [this, id = wanted.id](const auto& value) { found(id, value); }));
}

// The helper uses only the first answer to an id.
void Service::found(std::uint64_t id, const base::Result<rendezvous::HorovodValue>& value) {
  RankDataFound answer{.id = id, .is_ok = value.ok() && (*value)->starts_with(kHas), .blob = {}};
  if (answer.is_ok) answer.blob = (*value)->substr(1);
  loop_.post(gate_.wrap([this, answer = std::move(answer)] { send(answer); }));
}

// Publish a refusal, too, because the asking host waits for one of the two.
void Service::on(const RankData& data) {
  if (is_of_this_host(data.rank)) publish(data.rank, data.is_ok ? kHas + data.blob : std::string(1, kHasNone));
}

void Service::publish(int rank, std::string value) {
  const bool has_any = value.front() == kHas;
  keys_.put(kScope, data_key(rank), rendezvous::make_horovod_value(std::move(value)),
            gate_.wrap([this, rank, has_any](const base::Status& put) {
              if (put.ok()) return;
              events_.on_problem("data that an Open MPI rank published was not delivered: " + put.message());
              if (has_any) publish(rank, std::string(1, kHasNone));
            }));
}

void Service::on(const RankText& text) {
  if (is_of_this_host(text.rank)) events_.on_text(text.rank, text.text);
}

void Service::on(const NamePublish& asked) {
  if (is_of_this_host(asked.rank)) names_.publish(asked);
}

void Service::on(const NameLookUp& asked) {
  names_.look_up(asked);
}

void Service::on(const NameUnpublish& asked) {
  if (is_of_this_host(asked.rank)) names_.unpublish(asked);
}

void Service::on(const SpawnWanted& wanted) {
  if (is_of_this_host(wanted.rank)) events_.on_spawn(wanted);
}

// Peers of the rank would wait for the new processes for ever, so the job ends. A rank without peers may go on with
// the error.
void Service::spawn_done(const SpawnWanted& wanted, const std::string& nspace) {
  send(SpawnDone{wanted.id, nspace});
  if (nspace.empty() && !is_alone(wanted.rank)) events_.on_aborted(wanted.rank, 1);
}

}  // namespace muster::agent::pmix
