// How a rank without a launcher reaches rank 0: by TCP and the handshake, at one of several addresses.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "collectives/join/alone.h"
#include "collectives/transport/dial.h"

namespace muster::collectives::inline join {
namespace {

using std::chrono::milliseconds;

base::Result<base::UniqueFd> reach(const AlonePlace& place, const base::IpAddress& address, int rank,
                                   milliseconds time) {
  const LinkRequest request{LinkRequest::Purpose::kSession, rank, 0, ""};
  auto called = dial(address, place.port, place.secret, request, std::chrono::steady_clock::now() + time);
  if (!called.ok()) {
    // A timeout counts as UNAVAILABLE, so that the caller tries again. The right process may listen there soon.
    const bool is_late = called.status().code() == base::Code::kDeadlineExceeded;
    return base::Status(is_late ? base::Code::kUnavailable : called.status().code(), called.status().message());
  }
  base::UniqueFd socket = called->take_socket();
  // Without TCP_NODELAY the connection is only slower.
  const int on = 1;
  (void)::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return socket;
}

}  // namespace

Reach reach_session_host(int rank) {
  return [rank](const AlonePlace& place, milliseconds deadline) -> base::Result<base::UniqueFd> {
    base::Status last = base::unavailable("rank 0 has no address");
    const milliseconds share = deadline / static_cast<int>(std::max<std::size_t>(place.addresses.size(), 1));
    for (const base::IpAddress& address : place.addresses) {
      auto socket = reach(place, address, rank, share);
      if (socket.ok()) return socket;
      last = socket.status().with_context("rank 0");
    }
    return last;
  };
}

}  // namespace muster::collectives::join
