// FrontDoor: State accepts on the loop (accept_some), keeps unproven connections by their age, and drops or closes
// them. Read top down; the parser of gRPC's peer names comes first.
#include "launcherd/service/front_door.h"

#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "base/net.h"
#include "base/strings.h"

namespace muster::launcherd::inline service {
namespace {

namespace asio = boost::asio;

constexpr int kAcceptsPerTurn = 64;                   // afterwards other tasks of the loop run
constexpr std::chrono::milliseconds kDoorPause{100};  // pause while no descriptor is free
constexpr std::chrono::seconds kYoung{2};             // younger connections stay open if descriptors run out
constexpr std::chrono::minutes kReportPause{1};       // time between two reports that descriptors ran out
constexpr std::size_t kMostUnproven = 1024;
constexpr std::size_t kFewestUnproven = 16;
// Unproven connections may use one descriptor out of this many.
constexpr std::size_t kShareOfDescriptors = 8;
constexpr long kMostPort = 65'535;

// Returns the key for a peer: its address without a scope, and its port.
std::string peer_key(std::string_view address, long port) {
  return fmt::format("{} {}", address.substr(0, address.find('%')), port);
}

std::optional<std::string> peer_key(const sockaddr_storage& peer) {
  const auto address = base::IpAddress::from_sockaddr(reinterpret_cast<const sockaddr*>(&peer));
  if (!address.ok()) return std::nullopt;
  const in_port_t port = peer.ss_family == AF_INET ? reinterpret_cast<const sockaddr_in&>(peer).sin_port
                                                   : reinterpret_cast<const sockaddr_in6&>(peer).sin6_port;
  return peer_key(address->str(), ntohs(port));
}

// Parses gRPC's peer names: "ipv4:10.0.0.1:4711" or "ipv6:%5B::1%5D:4711".
std::optional<std::string> peer_key(std::string_view grpc_name) {
  constexpr std::string_view kFour = "ipv4:";
  constexpr std::string_view kSix = "ipv6:";
  if (!grpc_name.starts_with(kFour) && !grpc_name.starts_with(kSix)) return std::nullopt;
  grpc_name.remove_prefix(kFour.size());
  const std::size_t colon = grpc_name.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto port = base::parse_decimal(grpc_name.substr(colon + 1), kMostPort);
  std::string_view host = grpc_name.substr(0, colon);
  for (const std::string_view bracket : {"[", "%5B"}) {
    if (host.starts_with(bracket)) host.remove_prefix(bracket.size());
  }
  const auto address = base::IpAddress::parse(host.substr(0, host.find_first_of("%]")));
  if (!port || !address.ok()) return std::nullopt;
  return peer_key(address->str(), *port);
}

}  // namespace

struct FrontDoor::State : std::enable_shared_from_this<State> {
  struct Unproven {
    base::UniqueFd duplicate;
    std::string peer;
    base::MonotonicTime since;
  };

  State(base::Loop& loop_in, OnAccepted on_accepted_in, FrontDoorOptions options_in)
      : loop(loop_in),
        listening(loop.context()),
        on_accepted(std::move(on_accepted_in)),
        options(std::move(options_in)) {}

  void arm();
  void accept_some();
  void admit(base::UniqueFd fd, const sockaddr_storage& peer);
  void pause(int problem);
  void report(int problem);
  void track(base::UniqueFd duplicate, std::string peer);
  void close_older_than(base::MonotonicTime limit);
  void drop_proven_by_time();
  void erase(std::uint64_t id);

  base::Loop& loop;
  // Let asio wait on the listening socket itself. A watch of the loop needs a descriptor of its own, and none may be
  // free at the end of a pause.
  asio::posix::stream_descriptor listening;
  const OnAccepted on_accepted;
  const FrontDoorOptions options;
  base::Timer resume;
  base::Timer expiry;
  std::optional<base::MonotonicTime> reported;
  bool is_open = true;

  std::mutex mutex;
  std::map<std::uint64_t, Unproven> unproven;              // by age; guarded by mutex, like all members below
  std::unordered_map<std::string, std::uint64_t> by_peer;  // the newest connection, by the name of its peer
  std::uint64_t next_id = 0;
};

void FrontDoor::State::arm() {
  listening.async_wait(asio::posix::stream_descriptor::wait_read,
                       [weak = weak_from_this()](const boost::system::error_code& failed) {
                         const auto self = weak.lock();
                         if (failed || self == nullptr || !self->is_open) return;
                         self->accept_some();
                       });
}

void FrontDoor::State::accept_some() {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    sockaddr_storage peer{};
    socklen_t size = sizeof peer;
    base::UniqueFd fd(
        ::accept4(listening.native_handle(), reinterpret_cast<sockaddr*>(&peer), &size, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd.valid()) {
      admit(std::move(fd), peer);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      break;
    } else if (is_out_of_descriptors(errno)) {
      return pause(errno);
    }  // all other errors mean that the connection failed before it was accepted
  }
  arm();
}

void FrontDoor::State::admit(base::UniqueFd fd, const sockaddr_storage& peer) {
  auto key = peer_key(peer);
  if (!key) return;  // neither IPv4 nor IPv6
  // Without a duplicate this class cannot close the connection early. gRPC's own limit then ends a silent connection.
  base::UniqueFd duplicate(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
  if (duplicate.valid()) track(std::move(duplicate), std::move(*key));
  on_accepted(std::move(fd));
}

// If accept() fails, the socket stays readable, so waiting for it would spin.
void FrontDoor::State::pause(int problem) {
  close_older_than(std::chrono::steady_clock::now() - kYoung);
  report(problem);
  resume = loop.after(kDoorPause, [this] { accept_some(); });
}

void FrontDoor::State::report(int problem) {
  const base::MonotonicTime now = std::chrono::steady_clock::now();
  if (reported && now - *reported < kReportPause) return;
  reported = now;
  if (!options.on_line) return;
  options.on_line(
      fmt::format("{}: cannot accept a connection: {}; new connections wait until you raise the limit (ulimit -n)",
                  options.name, std::strerror(problem)));
}

void FrontDoor::State::track(base::UniqueFd duplicate, std::string peer) {
  const std::size_t most = std::max<std::size_t>(1, options.most_unproven());
  const base::MonotonicTime now = std::chrono::steady_clock::now();
  {
    const std::lock_guard lock(mutex);
    while (unproven.size() >= most) {
      ::shutdown(unproven.begin()->second.duplicate.get(), SHUT_RDWR);
      erase(unproven.begin()->first);
    }
    // The earlier peer of this name has ended, because its port is in use again.
    if (const auto same = by_peer.find(peer); same != by_peer.end()) erase(same->second);
    by_peer[peer] = next_id;
    unproven.emplace(next_id++, Unproven{std::move(duplicate), std::move(peer), now});
  }
  if (!expiry.armed()) expiry = loop.after(kUnprovenTime, [this] { drop_proven_by_time(); });
}

void FrontDoor::State::close_older_than(base::MonotonicTime limit) {
  const std::lock_guard lock(mutex);
  while (!unproven.empty() && unproven.begin()->second.since <= limit) {
    ::shutdown(unproven.begin()->second.duplicate.get(), SHUT_RDWR);
    erase(unproven.begin()->first);
  }
}

// gRPC has closed the connections whose handshake took too long. The remaining old ones have shown their certificate.
void FrontDoor::State::drop_proven_by_time() {
  const base::MonotonicTime now = std::chrono::steady_clock::now();
  expiry.cancel();
  const std::lock_guard lock(mutex);
  while (!unproven.empty() && unproven.begin()->second.since + kUnprovenTime <= now) erase(unproven.begin()->first);
  if (unproven.empty()) return;
  expiry = loop.after(unproven.begin()->second.since + kUnprovenTime - now, [this] { drop_proven_by_time(); });
}

// The caller holds the mutex.
void FrontDoor::State::erase(std::uint64_t id) {
  const auto found = unproven.find(id);
  if (found == unproven.end()) return;
  by_peer.erase(found->second.peer);
  unproven.erase(found);
}

base::Result<std::unique_ptr<FrontDoor>> FrontDoor::open(base::Loop& loop, base::UniqueFd listening,
                                                         OnAccepted on_accepted, FrontDoorOptions options) {
  auto state = std::make_shared<State>(loop, std::move(on_accepted), std::move(options));
  boost::system::error_code failed;
  state->listening.assign(listening.get(), failed);
  if (failed) return base::errno_error(failed.value(), fmt::format("watch {}", state->options.name));
  (void)listening.release();  // the descriptor object closes it
  state->arm();
  return std::unique_ptr<FrontDoor>(new FrontDoor(std::move(state)));
}

FrontDoor::FrontDoor(std::shared_ptr<State> state) : state_(std::move(state)) {}

FrontDoor::~FrontDoor() {
  close();
}

void FrontDoor::authenticated(std::string_view peer) {
  const auto key = peer_key(peer);
  if (!key) return;  // the peer uses a Unix socket
  const std::lock_guard lock(state_->mutex);
  const auto found = state_->by_peer.find(*key);
  if (found != state_->by_peer.end()) state_->erase(found->second);
}

void FrontDoor::close() {
  state_->loop.assert_inside();
  state_->is_open = false;
  state_->resume.cancel();
  state_->expiry.cancel();
  boost::system::error_code ignored;  // the socket is closed in any case
  state_->listening.close(ignored);
  const std::lock_guard lock(state_->mutex);
  state_->unproven.clear();
  state_->by_peer.clear();
}

std::size_t FrontDoor::unproven() const {
  const std::lock_guard lock(state_->mutex);
  return state_->unproven.size();
}

bool is_out_of_descriptors(int errno_value) {
  return errno_value == EMFILE || errno_value == ENFILE || errno_value == ENOBUFS || errno_value == ENOMEM;
}

int handshake_milliseconds() {
  return static_cast<int>(std::chrono::milliseconds(FrontDoor::kHandshakeTime).count());
}

std::size_t unproven_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return kFewestUnproven;
  return std::clamp(static_cast<std::size_t>(limit.rlim_cur) / kShareOfDescriptors, kFewestUnproven, kMostUnproven);
}

}  // namespace muster::launcherd::service
