// Starts without a launcher: settings, rank 0's side, and the search of the other ranks for rank 0.
// Read read_alone_settings() and open_alone() first, then join_alone() and the functions that it calls.
#include "collectives/join/alone.h"

#include <netdb.h>
#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <memory>
#include <utility>

#include "base/clock.h"
#include "base/file.h"
#include "base/ids.h"
#include "base/own_file.h"
#include "base/strings.h"
#include "collectives/join/alone_file.h"
#include "collectives/join/poll_until.h"
#include "rendezvous/session_frame.h"

namespace muster::collectives::inline join {
namespace {

using base::Code;
using std::chrono::milliseconds;

constexpr int kBacklog = 4096;
constexpr long kMaxRanks = 1'000'000;
constexpr milliseconds kOneTry{2'000};      // limit for one place, because rank 0 may publish another one
constexpr milliseconds kReadAgain{200};     // for file systems that report no changes
constexpr milliseconds kLongestPause{500};  // between two connections to a port where no process listens yet
constexpr milliseconds kFirstPause{10};

milliseconds left_until(base::MonotonicTime end) {
  return std::max(std::chrono::ceil<milliseconds>(end - base::monotonic_now()), milliseconds(0));
}

base::Result<int> number_of(const char* name, std::optional<std::string_view> text, long max) {
  const auto number = text ? base::parse_decimal(*text, max) : std::nullopt;
  if (number) return static_cast<int>(*number);
  return base::invalid_argument("with MUSTER_RENDEZVOUS, {} must be a number from 0 to {}, but it is {}", name, max,
                                text ? base::shell_quote(base::printable(*text)) : "not set");
}

base::Status bad_rendezvous(std::string_view text) {
  return base::invalid_argument("MUSTER_RENDEZVOUS must be tcp://HOST:PORT or file:///DIRECTORY, but it is {}",
                                base::shell_quote(base::printable(text)));
}

base::Status parse_tcp(std::string_view text, AloneSettings& settings) {
  std::string_view rest = text.substr(std::string_view("tcp://").size());
  const auto colon = rest.rfind(':');
  if (colon == std::string_view::npos) return bad_rendezvous(text);
  const auto port = base::parse_decimal(rest.substr(colon + 1), std::numeric_limits<std::uint16_t>::max());
  std::string_view host = rest.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host.empty() || !port || *port == 0) return bad_rendezvous(text);
  settings.host = host;
  settings.port = static_cast<std::uint16_t>(*port);
  return base::ok_status();
}

base::Status parse_rendezvous(std::string_view text, AloneSettings& settings) {
  if (text.starts_with("tcp://")) return parse_tcp(text, settings);
  if (!text.starts_with("file:///")) return bad_rendezvous(text);
  std::string_view path = text.substr(std::string_view("file://").size());
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  settings.directory = path;
  return base::ok_status();
}

base::Result<std::vector<base::IpAddress>> resolve(const std::string& host) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int failed = ::getaddrinfo(host.c_str(), nullptr, &wanted, &found);
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(failed == 0 ? found : nullptr, [](addrinfo* list) {
    if (list != nullptr) ::freeaddrinfo(list);
  });
  if (failed != 0) {
    return base::unavailable("cannot resolve {}: {}", base::printable(host), ::gai_strerror(failed));
  }
  std::vector<base::IpAddress> addresses;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    auto address = base::IpAddress::from_sockaddr(entry->ai_addr);
    if (address.ok() && std::ranges::find(addresses, *address) == addresses.end()) {
      addresses.push_back(std::move(*address));
    }
  }
  return addresses;
}

// If the user gives a host name, rank 0 listens on all addresses. On rank 0's host the name may mean another address
// than elsewhere (Debian's 127.0.1.1).
base::Result<AloneHost> open_tcp(const AloneSettings& settings) {
  AloneHost host;
  MUSTER_ASSIGN_OR_RETURN(host.place.secret, read_secret_file(settings.secret_file));
  host.place.port = settings.port;
  const auto literal = base::IpAddress::parse(settings.host);
  auto listening =
      literal.ok() ? base::listen_on(*literal, settings.port, kBacklog) : base::listen_any(settings.port, kBacklog);
  if (!listening.ok()) {
    return base::error(listening.status().code(),
                       "rank 0 cannot listen at {}:{} ({}): MUSTER_RENDEZVOUS must name rank 0's host and a free port",
                       settings.host, settings.port, listening.status().message());
  }
  host.listening = std::move(*listening);
  if (literal.ok()) {
    host.place.addresses.push_back(*literal);
  } else {
    MUSTER_ASSIGN_OR_RETURN(host.place.addresses, addresses_of_this_host());
  }
  return host;
}

base::Result<AloneHost> open_directory(const AloneSettings& settings) {
  MUSTER_RETURN_IF_ERROR(base::make_private_directory(settings.directory));
  const std::string path = place_path(settings.directory);
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    return base::errno_error(errno, fmt::format("remove {} of an earlier start", path));
  }
  AloneHost host;
  host.place.secret.resize(rendezvous::kSessionSecretBytes);
  base::random_bytes(host.place.secret.data(), host.place.secret.size());
  MUSTER_ASSIGN_OR_RETURN(host.listening, base::listen_any(0, kBacklog));
  MUSTER_ASSIGN_OR_RETURN(host.place.port, base::local_port(host.listening.get()));
  MUSTER_ASSIGN_OR_RETURN(host.place.addresses, addresses_of_this_host());
  const std::string content = encode_place(host.place);
  MUSTER_RETURN_IF_ERROR(base::write_file_atomically(path, content, 0600));
  host.published = Published(path, content);
  return host;
}

// Waits for changes of the directory. The wait may end without a change, so callers must check again.
class Changes {
 public:
  explicit Changes(const std::string& directory) : fd_(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
    if (fd_.valid()) (void)::inotify_add_watch(fd_.get(), directory.c_str(), IN_MOVED_TO | IN_CLOSE_WRITE);
  }
  void wait_blocking(milliseconds limit) const {
    pollfd slot{fd_.get(), POLLIN, 0};
    if (::poll(&slot, 1, static_cast<int>(limit.count())) <= 0) return;
    char events[4096];
    while (::read(fd_.get(), events, sizeof events) > 0) {
    }
  }

 private:
  const base::UniqueFd fd_;
};

base::Result<AloneGuest> join_once(const AlonePlace& place, const Reach& reach, base::MonotonicTime end) {
  MUSTER_ASSIGN_OR_RETURN(base::UniqueFd session, reach(place, std::min(kOneTry, left_until(end))));
  return AloneGuest{place, std::move(session)};
}

base::Result<AloneGuest> join_by_file(const std::string& path, const Reach& reach, base::MonotonicTime end) {
  MUSTER_ASSIGN_OR_RETURN(const std::string content, base::read_own_file(path));
  MUSTER_ASSIGN_OR_RETURN(const AlonePlace place, decode_place(content));
  return join_once(place, reach, end);
}

base::Result<AloneGuest> join_directory(const AloneSettings& settings, const Reach& reach, base::MonotonicTime end) {
  MUSTER_RETURN_IF_ERROR(base::make_private_directory(settings.directory));
  const Changes changes(settings.directory);  // watch before the first read, so that no change is missed
  for (;;) {
    auto guest = join_by_file(place_path(settings.directory), reach, end);
    if (guest.ok() || guest.status().code() == Code::kPermissionDenied) return guest;
    if (base::monotonic_now() >= end) return guest.status();
    changes.wait_blocking(std::min(kReadAgain, left_until(end)));
  }
}

base::Result<AloneGuest> join_by_name(const std::string& host, AlonePlace place, const Reach& reach,
                                      base::MonotonicTime end) {
  MUSTER_ASSIGN_OR_RETURN(place.addresses, resolve(host));
  return join_once(place, reach, end);
}

base::Result<AloneGuest> join_tcp(const AloneSettings& settings, const Reach& reach, base::MonotonicTime end) {
  AlonePlace place;
  MUSTER_ASSIGN_OR_RETURN(place.secret, read_secret_file(settings.secret_file));
  place.port = settings.port;
  milliseconds pause = kFirstPause;
  for (;;) {
    auto guest = join_by_name(settings.host, place, reach, end);
    if (guest.ok()) return guest;
    if (guest.status().code() == Code::kUnauthenticated) {
      return guest.status().with_context("is MUSTER_SECRET_FILE the same for all ranks?");
    }
    if (base::monotonic_now() >= end) return guest.status();
    // Sleep, because no event reports when rank 0 listens.
    ::poll(nullptr, 0, static_cast<int>(std::min(pause, left_until(end)).count()));
    pause = std::min(2 * pause, kLongestPause);
  }
}

}  // namespace

base::Result<std::optional<AloneSettings>> read_alone_settings(const base::Environment& environment) {
  const auto rendezvous = environment.get("MUSTER_RENDEZVOUS");
  if (!rendezvous || rendezvous->empty()) return std::optional<AloneSettings>();
  AloneSettings settings;
  MUSTER_RETURN_IF_ERROR(parse_rendezvous(*rendezvous, settings));
  MUSTER_ASSIGN_OR_RETURN(settings.size, number_of("MUSTER_SIZE", environment.get("MUSTER_SIZE"), kMaxRanks));
  MUSTER_ASSIGN_OR_RETURN(settings.rank, number_of("MUSTER_RANK", environment.get("MUSTER_RANK"), kMaxRanks));
  if (settings.rank >= settings.size) {
    return base::invalid_argument("MUSTER_RANK is {}, but MUSTER_SIZE is {}: ranks are 0 to size - 1", settings.rank,
                                  settings.size);
  }
  settings.secret_file = environment.get("MUSTER_SECRET_FILE").value_or("");
  if (!settings.host.empty() && settings.secret_file.empty()) {
    return base::invalid_argument(
        "MUSTER_RENDEZVOUS=tcp://… needs MUSTER_SECRET_FILE: a file with 64 hexadecimal digits, of mode "
        "600, the same on all hosts (openssl rand -hex 32)");
  }
  return std::optional(std::move(settings));
}

base::Result<std::vector<base::IpAddress>> addresses_of_this_host() {
  MUSTER_ASSIGN_OR_RETURN(const auto interfaces, base::interface_addresses());
  std::vector<base::IpAddress> addresses;
  for (const base::InterfaceAddress& entry : interfaces) addresses.push_back(entry.address);
  if (addresses.empty()) return base::unavailable("no network interface of this host is up");
  return addresses;
}

base::Result<AloneHost> open_alone(const AloneSettings& settings) {
  MUSTER_CHECK(settings.rank == 0);
  return settings.host.empty() ? open_directory(settings) : open_tcp(settings);
}

base::Result<AloneGuest> join_alone(const AloneSettings& settings, const Reach& reach, milliseconds deadline) {
  const base::MonotonicTime end = end_of(deadline);
  const bool is_tcp = !settings.host.empty();
  auto guest = is_tcp ? join_tcp(settings, reach, end) : join_directory(settings, reach, end);
  if (guest.ok() || base::monotonic_now() < end) return guest;
  const std::string where = is_tcp ? fmt::format("{}:{}", settings.host, settings.port) : settings.directory;
  return base::deadline_exceeded("rank {} did not find rank 0 through {} within {} s: {}", settings.rank, where,
                                 std::chrono::duration_cast<std::chrono::seconds>(deadline).count(),
                                 guest.status().message());
}

base::Result<base::IpAddress> address_for_others(const AloneSettings& settings, int session) {
  MUSTER_ASSIGN_OR_RETURN(base::IpAddress own, base::local_address(session));
  if (!own.is_loopback() || base::IpAddress::parse(settings.host).ok()) return own;
  MUSTER_ASSIGN_OR_RETURN(const std::vector<base::IpAddress> all, addresses_of_this_host());
  return all.front();
}

Published::~Published() {
  if (path_.empty()) return;
  const auto there = base::read_own_file(path_);
  if (there.ok() && *there == content_) ::unlink(path_.c_str());
}

Published& Published::operator=(Published&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(content_, other.content_);
  return *this;
}

}  // namespace muster::collectives::join
