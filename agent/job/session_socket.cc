// The whole of SessionSocket. Its class Peer is one connection of a rank.
// Read Peer::handle() first, which handles a rank's messages, then accept_some() and admit(), then hello(), then
// rank_ended().

#include "agent/job/session_socket.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/clock.h"
#include "base/net.h"
#include "base/strings.h"
#include "rendezvous/session_stream.h"

namespace muster::agent::inline job {
namespace {

using rendezvous::SessionMessage;

constexpr int kSessionBacklog = 4096;
constexpr int kAcceptsPerTurn = 64;                     // afterwards other tasks of the loop run
constexpr std::chrono::milliseconds kAcceptPause{100};  // used when descriptors have run out
// Number of descriptors that this socket leaves to the rest of the agent. A new descriptor gets the lowest free
// number, so a number near the limit shows that few are left.
constexpr rlim_t kSpareOfSession = 64;
constexpr std::string_view kScope = "muster";
// Part of the keys by which libmuster watches for failures of others. Every rank waits for them all the time.
constexpr std::string_view kAbortKey = "/abort/";
constexpr std::size_t kShownKey = 200;  // bytes of a key in Awaited

base::Status breach(int rank, std::string_view what) {
  return base::invalid_argument("session of rank {}: {}", rank, what);
}

base::Result<base::UniqueFd> listen_in(const std::string& directory) {
  const std::string shown = directory + "/" + kSessionSocketName;
  const base::UniqueFd in(::open(directory.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!in.valid()) return base::errno_error(errno, "open " + directory);
  auto address = base::unix_address(shown);
  // The path is too long for the address of a Unix socket. Bind by way of the directory's descriptor.
  if (!address) address = base::unix_address(fmt::format("/proc/self/fd/{}/{}", in.get(), kSessionSocketName));
  MUSTER_CHECK(address.has_value());
  base::UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid() || ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0 ||
      ::fchmodat(in.get(), kSessionSocketName, 0600, 0) != 0 || ::listen(fd.get(), kSessionBacklog) != 0) {
    return base::errno_error(errno, "listen at " + shown);
  }
  return fd;
}

}  // namespace

// One connection of a rank. Callbacks of the key store may run after it is gone, so they hold a weak pointer to it.
class SessionSocket::Peer : public std::enable_shared_from_this<Peer> {
 public:
  Peer(SessionSocket& owner, std::uint64_t id, base::UniqueFd socket)
      : owner_(owner), id_(id), stream_(std::move(socket), owner.limits_.max_queued_bytes) {
    readable_ = owner_.loop_.on_readable(stream_.fd(), [this] { readable(); });
  }
  ~Peer() {
    for (const auto& [id, wait] : waits_) owner_.keys_->cancel_wait(wait.id);
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  void welcome(int rank, const rendezvous::SessionWelcome& welcome) {
    rank_ = rank;
    version_ = welcome.version;
    send(welcome);
  }
  void send_silence(int rank, bool is_silent) {
    if (version_ >= rendezvous::kSessionSilenceVersion) send(rendezvous::SessionSilence{rank, is_silent});
  }
  // If sending fails, the connection is closed later, from the loop.
  void send(const SessionMessage& message);

  bool has_sent_hello() const { return rank_ >= 0; }
  int rank() const { return rank_; }
  std::optional<Awaited> awaited() const;

 private:
  void readable();
  void writable();
  void end_later(const base::Status& why);
  base::Status handle(SessionMessage message);
  void put(rendezvous::SessionPut put);
  base::Status wait(const rendezvous::SessionWait& wait);
  void answered(std::uint64_t id, base::Result<rendezvous::HorovodValue> value);

  SessionSocket& owner_;
  const std::uint64_t id_;
  int rank_ = -1;
  std::uint32_t version_ = 0;  // the version that both sides speak; 0 before the hello
  bool has_sent_goodbye_ = false;
  struct Wait {
    rendezvous::HorovodKeys::WaitId id = 0;
    std::string key;
    base::MonotonicTime since;
  };
  std::map<std::uint64_t, Wait> waits_;  // by the ids that the rank chose
  rendezvous::SessionStream stream_;
  base::Timer readable_;
  base::Timer writable_;
  base::Timer ending_;
};

void SessionSocket::Peer::readable() {
  const auto self = shared_from_this();  // keeps this object alive during the call
  const auto read = stream_.read([this](SessionMessage message) { return handle(std::move(message)); });
  if (!read.ok()) return owner_.gone(id_, read.status());
  if (!*read) owner_.gone(id_, base::ok_status());
}

void SessionSocket::Peer::writable() {
  const base::Status flushed = stream_.flush();
  if (!flushed.ok()) return end_later(flushed);
  if (!stream_.wants_write()) writable_.cancel();
}

void SessionSocket::Peer::send(const SessionMessage& message) {
  if (ending_.armed()) return;
  const base::Status sent = stream_.send(message);
  if (!sent.ok()) return end_later(sent);
  if (stream_.wants_write() && !writable_.armed()) {
    writable_ = owner_.loop_.on_writable(stream_.fd(), [this] { writable(); });
  }
}

// Ends this connection later, because the caller may be iterating over all connections.
void SessionSocket::Peer::end_later(const base::Status& why) {
  ending_ = owner_.loop_.after(base::Duration::zero(), [this, why] {
    const auto self = shared_from_this();
    owner_.gone(id_, why);
  });
}

base::Status SessionSocket::Peer::handle(SessionMessage message) {
  if (const auto* const hello = std::get_if<rendezvous::SessionHello>(&message)) {
    if (has_sent_hello()) return breach(rank_, "a second hello");
    return owner_.hello(*this, *hello);
  }
  if (!has_sent_hello()) return base::invalid_argument("a session whose first message is not hello");
  if (has_sent_goodbye_) return breach(rank_, "it sent a message after its goodbye");
  if (auto* const put_order = std::get_if<rendezvous::SessionPut>(&message)) {
    put(std::move(*put_order));
  } else if (const auto* const wanted = std::get_if<rendezvous::SessionWait>(&message)) {
    return wait(*wanted);
  } else if (const auto* const cancelled = std::get_if<rendezvous::SessionCancel>(&message)) {
    const auto found = waits_.extract(cancelled->id);
    if (!found.empty()) owner_.keys_->cancel_wait(found.mapped().id);
  } else if (std::holds_alternative<rendezvous::SessionGoodbye>(message)) {
    has_sent_goodbye_ = true;
  } else {
    return breach(rank_, "it sent a message that only a host may send");
  }
  return base::ok_status();
}

void SessionSocket::Peer::put(rendezvous::SessionPut put) {
  owner_.keys_->put(kScope, put.key, rendezvous::make_horovod_value(std::move(put.value)),
                    [weak = weak_from_this(), id = put.id](const base::Status& status) {
                      const auto self = weak.lock();
                      if (self == nullptr) return;
                      self->send(rendezvous::SessionPutDone{id, status.code(), status.message()});
                    });
}

base::Status SessionSocket::Peer::wait(const rendezvous::SessionWait& wait) {
  if (waits_.contains(wait.id)) return breach(rank_, fmt::format("two waits with the id {}", wait.id));
  if (waits_.size() >= owner_.limits_.max_waits_of_connection) {
    send(rendezvous::SessionValue{wait.id, base::Code::kResourceExhausted, "too many waits of one rank"});
    return base::ok_status();
  }
  const auto id = owner_.keys_->wait(
      kScope, wait.key, [weak = weak_from_this(), id = wait.id](base::Result<rendezvous::HorovodValue> value) {
        if (const auto self = weak.lock()) self->answered(id, std::move(value));
      });
  if (id != 0) waits_[wait.id] = {.id = id, .key = wait.key, .since = base::monotonic_now()};
  return base::ok_status();
}

std::optional<Awaited> SessionSocket::Peer::awaited() const {
  const Wait* oldest = nullptr;
  for (const auto& [id, wait] : waits_) {
    const bool is_watch = wait.key.find(kAbortKey) != std::string::npos;
    if (!is_watch && (oldest == nullptr || wait.since < oldest->since)) oldest = &wait;
  }
  if (oldest == nullptr) return std::nullopt;
  return Awaited{.what = fmt::format("the key \"{}\" in the store", base::printable(oldest->key.substr(0, kShownKey))),
                 .since = oldest->since};
}

void SessionSocket::Peer::answered(std::uint64_t id, base::Result<rendezvous::HorovodValue> value) {
  waits_.erase(id);
  if (value.ok()) {
    send(rendezvous::SessionValue{id, base::Code::kOk, **value});
  } else {
    send(rendezvous::SessionValue{id, value.status().code(), value.status().message()});
  }
}

SessionSocket::SessionSocket(base::Loop& loop, Events events, SessionSocketLimits limits)
    : loop_(loop), events_(std::move(events)), limits_(limits) {}

SessionSocket::~SessionSocket() = default;

std::optional<Awaited> SessionSocket::awaited(int rank) const {
  std::optional<Awaited> oldest;
  for (const auto& [id, peer] : peers_) {
    if (peer->rank() == rank) oldest = older(std::move(oldest), peer->awaited());
  }
  return oldest;
}

base::Status SessionSocket::open(const std::string& directory, std::string secret, const std::vector<int>& ranks,
                                 rendezvous::HorovodKeys& keys) {
  if (secret.size() != rendezvous::kSessionSecretBytes) {
    return base::invalid_argument("the launcher's secret for the ranks has {} bytes instead of {}", secret.size(),
                                  rendezvous::kSessionSecretBytes);
  }
  MUSTER_ASSIGN_OR_RETURN(listening_, listen_in(directory));
  secret_ = std::move(secret);
  ranks_ = {ranks.begin(), ranks.end()};
  keys_ = &keys;
  arm();
  return base::ok_status();
}

void SessionSocket::arm() {
  readable_ = loop_.on_readable(listening_.get(), [this] { accept_some(); });
}

void SessionSocket::accept_some() {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    base::UniqueFd fd(::accept4(listening_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd.valid()) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        // The socket stays readable while no connection can be accepted, so waiting for it would spin. Pause instead.
        readable_.cancel();
        resume_ = loop_.after(kAcceptPause, [this] { arm(); });
      }
      return;
    }
    const base::Status admitted = admit(fd.get());
    if (!admitted.ok()) {
      events_.on_problem(admitted);
      continue;
    }
    make_room();
    peers_.emplace(next_peer_, std::make_shared<Peer>(*this, next_peer_, std::move(fd)));
    ++next_peer_;
  }
}

base::Status SessionSocket::admit(int fd) const {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return base::errno_error(errno, "read the credentials of a process that has connected to agent.sock");
  }
  if (peer.uid != ::geteuid()) {
    return base::permission_denied("agent.sock: refused process {} of uid {}", peer.pid, peer.uid);
  }
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && static_cast<rlim_t>(fd) + kSpareOfSession > limit.rlim_cur) {
    return base::resource_exhausted("agent.sock: refused process {}: the agent has no file descriptors left", peer.pid);
  }
  return base::ok_status();
}

void SessionSocket::make_room() {
  const auto is_stranger = [](const auto& entry) { return !entry.second->has_sent_hello(); };
  if (static_cast<std::size_t>(std::ranges::count_if(peers_, is_stranger)) < limits_.max_strangers) return;
  peers_.erase(std::ranges::find_if(peers_, is_stranger));
}

base::Status SessionSocket::hello(Peer& peer, const rendezvous::SessionHello& hello) {
  if (hello.version == 0) return breach(hello.rank, "version 0");
  if (!ranks_.contains(hello.rank)) return breach(hello.rank, "it is not a rank of this host");
  const auto own = std::ranges::count_if(peers_, [&](const auto& entry) { return entry.second->rank() == hello.rank; });
  if (static_cast<std::size_t>(own) >= limits_.max_connections_of_rank) {
    return base::resource_exhausted("session of rank {}: it already has {} connections", hello.rank, own);
  }
  peer.welcome(hello.rank, rendezvous::SessionWelcome{std::min(hello.version, rendezvous::kSessionVersion), secret_,
                                                      hellos_[hello.rank]++});
  for (const auto& [rank, end] : ended_) peer.send(end);
  for (const int rank : silent_) peer.send_silence(rank, true);
  if (!std::exchange(had_hello_, true)) events_.on_first_hello();
  return base::ok_status();
}

void SessionSocket::gone(std::uint64_t peer, const base::Status& why) {
  // Do not report that a rank just closed its connection. The warden reports the rank's end.
  if (!why.ok() && why.code() != base::Code::kUnavailable) events_.on_problem(why);
  peers_.erase(peer);
}

void SessionSocket::begin_generation(const std::vector<int>& ranks) {
  ranks_ = {ranks.begin(), ranks.end()};
  ended_.clear();
  silent_.clear();
  hellos_.clear();
  std::erase_if(peers_, [](const auto& entry) { return entry.second->has_sent_hello(); });
}

void SessionSocket::rank_ended(rendezvous::SessionEnded end) {
  const auto added = ended_.emplace(end.rank, std::move(end));
  if (!added.second) return;
  for (const auto& [id, peer] : peers_) {
    if (peer->has_sent_hello() && peer->rank() != added.first->first) peer->send(added.first->second);
  }
}

void SessionSocket::set_silent(std::set<int> ranks) {
  const std::set<int> before = std::exchange(silent_, std::move(ranks));
  const auto report = [this](const std::set<int>& in, const std::set<int>& not_in, bool is_silent) {
    for (const int rank : in) {
      if (not_in.contains(rank)) continue;
      for (const auto& [id, peer] : peers_) peer->send_silence(rank, is_silent);
    }
  };
  report(silent_, before, true);
  report(before, silent_, false);
}

}  // namespace muster::agent::job
