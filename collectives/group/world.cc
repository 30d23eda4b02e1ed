// The world of a process: joining, reports of ended ranks, blame at deadlines, and connections to other ranks. Read
// join() first, then start_service(), join_session() and meet(), then ended() and wait_for_end().
#include "collectives/group/world.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <condition_variable>
#include <iterator>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "base/net.h"
#include "collectives/join/place.h"
#include "collectives/join/process_watch.h"
#include "collectives/transport/dial.h"

namespace muster::collectives::inline group {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kMeetingSlice{250};
constexpr milliseconds kRedialPause{100};
constexpr milliseconds kFarewellAfterFailure{1000};
constexpr milliseconds kLateReportTime{800};  // enough: the ranks of an operation reach its deadline almost together

}  // namespace

class World::PolledHost final : public Polled {
 public:
  explicit PolledHost(std::shared_ptr<SessionHost> host) : host_(std::move(host)) {}
  void add_polls(std::vector<pollfd>& fds) override { host_->add_polls(fds); }
  bool on_ready(int fd) override {
    host_->on_ready(fd);
    note_connections();
    return true;
  }
  // Call it on the service thread.
  void drop(int rank) {
    host_->drop(rank);
    note_connections();
  }
  // Waits until only our own session is left, at most for `time`.
  void wait_for_others(milliseconds time) {
    std::unique_lock lock(mutex_);
    others_left_.wait_for(lock, time, [this] { return have_others_left_; });
  }

 private:
  void note_connections() {
    const std::lock_guard lock(mutex_);
    have_others_left_ = host_->connections() <= 1;
    if (have_others_left_) others_left_.notify_all();
  }

  const std::shared_ptr<SessionHost> host_;
  std::mutex mutex_;
  std::condition_variable others_left_;
  bool have_others_left_ = false;
};

namespace {

class PolledSession final : public Polled {
 public:
  explicit PolledSession(Session& session) : session_(session) {}
  void add_polls(std::vector<pollfd>& fds) override {
    fds.push_back({session_.fd(), static_cast<short>(session_.wants_write() ? POLLIN | POLLOUT : POLLIN), 0});
  }
  bool on_ready(int) override { return session_.on_ready().ok(); }

 private:
  Session& session_;
};

}  // namespace

std::string World::key(const std::string& name) const {
  return fmt::format("{}/{}", generation_, name);
}

base::Result<std::shared_ptr<World>> World::join(const WorldOptions& options, WorldSetup setup, Failure* why) {
  std::shared_ptr<World> world(new World);
  world->options_ = options;
  // TCP must not mistake a rank that is late but alive for a lost host. So it allows at least the deadline of
  // operations.
  world->tcp_options_.silence = std::max(world->tcp_options_.silence, options.deadline);
  world->rank_ = setup.rank;
  world->encrypts_ = setup.encrypts;
  world->check_ = std::move(setup.check);
  world->watches_processes_ = setup.watches_processes;
  world->place_ = setup.place.empty() ? own_place() : setup.place;
  world->members_.resize(static_cast<std::size_t>(setup.size));
  MUSTER_RETURN_IF_ERROR(world->start_service(setup));
  base::Status met = world->join_session(setup);
  if (met.ok()) met = world->meet();
  if (met.ok()) {
    world->service_->name_thread(setup.size);
    if (world->watches_processes_) world->watch_processes();
    return world;
  }
  if (why != nullptr) *why = world->blame(met);
  return met;
}

// If only the session is lost, rank 0 was lost with it. The report of rank 0's end arrives at the same time.
Failure World::blame(const base::Status& not_joined) const {
  std::optional<int> rank;
  if (not_joined.code() == base::Code::kUnavailable) rank = wait_for_failed(all_ranks(), kEndReportTime);
  if (!rank && awaited_ >= 0) rank = awaited_;
  return {not_joined.code(), rank.value_or(-1), rank ? member(*rank).host : "", not_joined.message()};
}

World::~World() {
  {
    const std::lock_guard lock(mutex_);
    is_left_ = true;
  }
  if (session_ != nullptr) session_->send_goodbye();
  // Other ranks get their reports from this process. If it left first, they would see a failure.
  if (polled_host_ != nullptr && session_ != nullptr) polled_host_->wait_for_others(farewell_time());
  service_.reset();
}

// Once a rank has failed, the others must leave anyway. The connection of the failed rank may stay open for long: a
// child of it may hold it, or its host may be silent.
milliseconds World::farewell_time() const {
  const bool has_failed = watches_processes_ && (has_failed_ || wait_for_failed(all_ranks(), milliseconds(0)));
  return has_failed ? std::min(options_.deadline, kFarewellAfterFailure) : options_.deadline;
}

base::Status World::start_service(WorldSetup& setup) {
  own_address_ = setup.address.empty() ? "127.0.0.1" : setup.address;
  address_of_rank_0_ = setup.address_of_rank_0;
  if (!setup.listener.valid()) {
    MUSTER_ASSIGN_OR_RETURN(const base::IpAddress address, base::IpAddress::parse(own_address_));
    MUSTER_ASSIGN_OR_RETURN(setup.listener, base::listen_on(address, 0, kPeerBacklog));
  }
  MUSTER_RETURN_IF_ERROR(apply(tcp_options_, setup.listener.get()));  // accepted connections inherit the options
  MUSTER_ASSIGN_OR_RETURN(own_port_, base::local_port(setup.listener.get()));
  ServiceConfig config;
  config.rank = rank_;
  config.encrypts = encrypts_;
  config.listener = std::move(setup.listener);
  const std::shared_ptr<SessionHost> host = std::move(setup.host);
  if (host != nullptr) {
    config.on_session = [host](int rank, base::UniqueFd socket) { host->add(rank, std::move(socket)); };
  }
  MUSTER_ASSIGN_OR_RETURN(service_, Service::start(std::move(config)));
  host_ = host;
  if (host_ != nullptr) {
    polled_host_ = std::make_shared<PolledHost>(host_);
    service_->watch(polled_host_);
  }
  secret_ = setup.secret;
  if (!secret_.empty()) service_->set_secret(secret_);
  return base::ok_status();
}

base::Result<base::UniqueFd> World::session_socket(WorldSetup& setup) {
  if (host_ == nullptr) return std::move(setup.session);
  MUSTER_ASSIGN_OR_RETURN(base::FdPair pair, base::make_socketpair(SOCK_STREAM | SOCK_NONBLOCK));
  // The descriptor is shared, because a task must be copyable.
  auto far_end = std::make_shared<base::UniqueFd>(std::move(pair.first));
  service_->post([host = host_, rank = rank_, far_end] { host->add(rank, std::move(*far_end)); });
  return std::move(pair.second);
}

base::Status World::join_session(WorldSetup& setup) {
  if (setup.size == 1 && !setup.session.valid()) return base::ok_status();
  MUSTER_ASSIGN_OR_RETURN(base::UniqueFd socket, session_socket(setup));
  has_agent_ = setup.secret.empty();
  SessionEvents events;
  events.on_ended = [this](int rank, bool failed, const std::string& cause) { ended(rank, failed, cause); };
  events.on_silence = [this](int rank, bool is_silent) { set_silent(rank, is_silent); };
  events.on_lost = [this](const base::Status& why) {
    // Without a launcher, rank 0 keeps the session, so a lost session means that rank 0 is lost. With a launcher, the
    // agent is about to end this process.
    if (!has_agent_ && host_ == nullptr) ended(0, true, fmt::format("is gone ({})", why.message()));
  };
  MUSTER_ASSIGN_OR_RETURN(session_,
                          Session::connect(std::move(socket), rank_, std::move(events), options_.join_deadline));
  generation_ = session_->generation();
  if (secret_.empty()) {
    secret_ = session_->secret();
    service_->set_secret(secret_);
  }
  service_->watch(std::make_shared<PolledSession>(*session_));
  return base::ok_status();
}

base::Result<Member> World::own_member() const {
  Member member;
  member.rank = rank_;
  member.host = own_host();
  member.place = place_;
  member.pid = getpid();
  member.address = own_address_;
  member.port = own_port_;
  member.encrypts = encrypts_;
  member.unix_name = service_->unix_name();
  return member;
}

base::Status World::meet() {
  MUSTER_ASSIGN_OR_RETURN(const Member own, own_member());
  if (session_ == nullptr) {
    members_ = {own};
    return base::ok_status();
  }
  const auto end = steady_clock::now() + options_.join_deadline;
  const auto is_over = [this] { return !check_nobody_failed().ok(); };
  const base::Status put =
      session_->put(key(fmt::format("member/{}", rank_)), encode(own), options_.join_deadline, is_over);
  MUSTER_RETURN_IF_ERROR(check_nobody_failed());
  MUSTER_RETURN_IF_ERROR(put);
  for (int rank = 0; std::cmp_less(rank, members_.size()); ++rank) {
    awaited_ = rank;
    auto found = wait_for_member(rank, end);
    if (!found.ok()) return found.status().with_context(fmt::format("waiting for rank {} to join", rank));
    awaited_ = -1;
    MUSTER_ASSIGN_OR_RETURN(Member member, decode_member(*found));
    const bool is_with_rank_0 = rank == 0 || member.place == members_.front().place;
    if (is_with_rank_0 && member.place != place_ && !address_of_rank_0_.empty()) member.address = address_of_rank_0_;
    members_[static_cast<std::size_t>(rank)] = std::move(member);
  }
  return check_encryption();
}

void World::watch_processes() {
  auto watch = std::make_shared<ProcessWatch>([this](int rank) {
    if (end_of(rank)) return;
    ended(rank, true, "has ended");
    if (polled_host_ != nullptr) polled_host_->drop(rank);
  });
  for (const Member& member : members_) {
    if (member.place == place_ && member.rank != rank_) watch->add(member.rank, static_cast<pid_t>(member.pid));
  }
  service_->watch(std::move(watch));
}

// Checks the setting of all ranks before the first connection, so that all ranks report a difference. Each connection's
// handshake checks it as well.
base::Status World::check_encryption() const {
  const auto encrypts = [](const Member& member) { return member.encrypts; };
  const auto one = std::find_if(members_.begin(), members_.end(), encrypts);
  const auto other = std::find_if_not(members_.begin(), members_.end(), encrypts);
  if (one == members_.end() || other == members_.end()) return base::ok_status();
  return base::failed_precondition(
      "rank {} ({}) encrypts its connections and rank {} ({}) does not: set MUSTER_ENCRYPT=1 for all "
      "ranks or for none",
      one->rank, one->host, other->rank, other->host);
}

LinkRequest World::request_to(int rank, const std::string& communicator) const {
  return {LinkRequest::Purpose::kLink, rank_, rank, communicator, encrypts_};
}

base::Status World::check_nobody_failed() const {
  const auto failed = wait_for_failed(all_ranks(), milliseconds(0));
  if (!failed) return base::ok_status();
  return base::unavailable("rank {} {} before all ranks had joined", *failed, end_of(*failed)->cause);
}

// Waits in slices, for two reasons. A rank that ended before it joined must not be waited for until the deadline. And
// once a rank has failed, other ranks fail because of it and must not be blamed.
base::Result<std::string> World::wait_for_member(int rank, base::MonotonicTime deadline) {
  while (true) {
    MUSTER_RETURN_IF_ERROR(check_nobody_failed());
    if (check_) MUSTER_RETURN_IF_ERROR(check_());
    // Read the end before the value, since a value that the rank put before its end counts.
    const std::optional<End> gone = end_of(rank);
    const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
    auto found = session_->wait(key(fmt::format("member/{}", rank)), std::clamp(left, milliseconds(1), kMeetingSlice));
    if (found.ok() || found.status().code() != base::Code::kDeadlineExceeded) return found;
    if (gone) return base::unavailable("rank {} {} before it had joined", rank, gone->cause);
    if (left <= milliseconds(0)) return found;
  }
}

void World::listen(EndListener& listener) {
  const std::lock_guard lock(mutex_);
  listeners_.push_back(&listener);
  for (const auto& [rank, end] : ends_) listener.on_ended(member(rank), end.failed, end.cause);
}

void World::unlisten(EndListener& listener) {
  const std::lock_guard lock(mutex_);
  std::erase(listeners_, &listener);
}

std::optional<World::End> World::end_of(int rank) const {
  const std::lock_guard lock(mutex_);
  const auto found = ends_.find(rank);
  return found == ends_.end() ? std::nullopt : std::optional(found->second);
}

void World::ended(int rank, bool failed, const std::string& cause) {
  if (rank < 0 || rank >= size() || rank == rank_) return;
  const std::lock_guard lock(mutex_);
  if (is_left_) return;
  if (!ends_.emplace(rank, End{failed, cause, ends_.size()}).second) return;
  for (EndListener* const listener : listeners_) listener->on_ended(member(rank), failed, cause);
  ends_changed_.notify_all();
}

void World::set_silent(int rank, bool is_silent) {
  if (rank < 0 || rank >= size() || rank == rank_) return;
  const std::lock_guard lock(mutex_);
  if (is_silent) {
    silent_.insert(rank);
  } else {
    silent_.erase(rank);
  }
}

std::vector<int> World::silent_of(std::span<const int> ranks) const {
  const std::lock_guard lock(mutex_);
  std::vector<int> silent;
  std::ranges::copy_if(ranks, std::back_inserter(silent),
                       [&](int rank) { return silent_.contains(rank) && !ends_.contains(rank); });
  return silent;
}

base::Status World::put(const std::string& name, const std::string& value) {
  if (session_ == nullptr) return base::ok_status();
  return session_->put(key(name), value, options_.deadline);
}

base::Result<std::string> World::get(const std::string& name, milliseconds time) {
  if (session_ == nullptr) return base::unavailable("this process has no session");
  return session_->wait(key(name), time);
}

void World::report_failure(const std::string& communicator, const Failure& failure) {
  if (session_ == nullptr) return;
  session_->put_and_forget(key("abort/" + communicator), encode(failure));
}

void World::report_late(const std::string& communicator, int late) {
  if (session_ == nullptr) return;
  session_->put_and_forget(key(fmt::format("late/{}/{}", communicator, rank_)), std::to_string(late));
}

std::optional<int> World::late_for(const std::string& communicator, int rank) {
  if (session_ == nullptr) return std::nullopt;
  const auto report = session_->wait(key(fmt::format("late/{}/{}", communicator, rank)), kLateReportTime);
  int late = -1;
  if (!report.ok()) return std::nullopt;
  std::from_chars(report->data(), report->data() + report->size(), late);
  return late >= 0 && late < size() ? std::optional(late) : std::nullopt;
}

bool World::late_for_any(const std::string& communicator, std::span<const int> ranks) {
  if (session_ == nullptr) return false;
  struct Reports {
    std::mutex mutex;
    std::condition_variable changed;
    bool has_any = false;
  };
  const auto reports = std::make_shared<Reports>();  // shared, because a watch may still run while it is being removed
  std::vector<Session::WatchId> watches;
  for (const int rank : ranks) {
    watches.push_back(
        session_->watch(key(fmt::format("late/{}/{}", communicator, rank)), [reports](const std::string&) {
          const std::lock_guard lock(reports->mutex);
          reports->has_any = true;
          reports->changed.notify_all();
        }));
  }
  std::unique_lock lock(reports->mutex);
  reports->changed.wait_for(lock, kLateReportTime, [&] { return reports->has_any; });
  const bool has_any = reports->has_any;
  lock.unlock();
  for (const Session::WatchId watch : watches) session_->unwatch(watch);
  return has_any;
}

void World::unwatch_failure(std::uint64_t id) {
  if (session_ != nullptr) session_->unwatch(id);
}

std::optional<World::End> World::wait_for_end(int rank, milliseconds time, std::span<const int> others) const {
  std::unique_lock lock(mutex_);
  ends_changed_.wait_for(lock, time, [&] { return ends_.contains(rank) || first_failed(others); });
  const auto found = ends_.find(rank);
  return found == ends_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<int> World::wait_for_failed(std::span<const int> ranks, milliseconds time) const {
  std::unique_lock lock(mutex_);
  ends_changed_.wait_for(lock, time, [&] { return first_failed(ranks).has_value(); });
  return first_failed(ranks);
}

std::optional<int> World::first_failed(std::span<const int> ranks) const {
  std::optional<int> first;
  for (const int rank : ranks) {
    const auto found = ends_.find(rank);
    if (found == ends_.end() || !found->second.failed) continue;
    if (!first || found->second.number < ends_.at(*first).number) first = rank;
  }
  return first;
}

std::vector<int> World::all_ranks() const {
  std::vector<int> all(members_.size());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::uint64_t World::watch_failure(const std::string& communicator, std::function<void(const Failure&)> on_failure) {
  if (session_ == nullptr) return 0;
  return session_->watch(key("abort/" + communicator), [on_failure = std::move(on_failure)](const std::string& value) {
    on_failure(decode_failure(value));
  });
}

base::Result<Connection> World::connect_to(int rank, const std::string& communicator, const AbortRecord& abort) {
  const Member& peer = member(rank);
  MUSTER_ASSIGN_OR_RETURN(const base::IpAddress address, base::IpAddress::parse(peer.address));
  const LinkRequest request = request_to(rank, communicator);
  const base::MonotonicTime end = steady_clock::now() + options_.deadline;
  auto called = dial_patiently([&] { return dial(address, peer.port, secret_, request, end, &abort, &tcp_options_); },
                               end, abort, [&] { return wait_for_end(rank, kRedialPause).has_value(); });
  if (called.ok()) return called->take_connection();
  if (abort.is_raised()) return called.status();
  return called.status().with_context(fmt::format("rank {} ({})", rank, peer.host));
}

base::Result<Handshake> World::begin_call(int rank, const std::string& communicator) {
  const Member& peer = member(rank);
  MUSTER_ASSIGN_OR_RETURN(const base::IpAddress address, base::IpAddress::parse(peer.address));
  MUSTER_ASSIGN_OR_RETURN(base::UniqueFd socket, begin_connecting(address, peer.port, &tcp_options_));
  return Handshake::call(std::move(socket), secret_, request_to(rank, communicator));
}

}  // namespace muster::collectives::group
