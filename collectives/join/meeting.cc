#include "collectives/join/meeting.h"

#include <poll.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/ids.h"
#include "collectives/join/alone_file.h"
#include "collectives/join/poll_until.h"
#include "rendezvous/session_frame.h"

namespace muster::collectives::inline join {
namespace {

using std::chrono::milliseconds;

constexpr int kMeetingBacklog = 4096;
constexpr std::size_t kMostMeetingAddresses = 32;  // keeps the text below kMaxMeetingText
constexpr milliseconds kMeetingTry{2'000};         // limit for one text, because a newer one may replace it
constexpr milliseconds kNextLook{5};

base::Result<AloneGuest> join_text(const std::string& text, const Reach& reach, milliseconds left) {
  if (text.size() > kMaxMeetingText) return base::invalid_argument("the text of rank 0 has {} bytes", text.size());
  MUSTER_ASSIGN_OR_RETURN(AlonePlace place, decode_place(text));
  MUSTER_ASSIGN_OR_RETURN(base::UniqueFd session, reach(place, std::min(kMeetingTry, left)));
  return AloneGuest{std::move(place), std::move(session)};
}

}  // namespace

base::Result<AloneHost> open_meeting(const Meeting& meeting, const std::string& preferred) {
  AloneHost host;
  host.place.secret.resize(rendezvous::kSessionSecretBytes);
  base::random_bytes(host.place.secret.data(), host.place.secret.size());
  MUSTER_ASSIGN_OR_RETURN(host.listening, base::listen_any(0, kMeetingBacklog));
  MUSTER_ASSIGN_OR_RETURN(host.place.port, base::local_port(host.listening.get()));
  MUSTER_ASSIGN_OR_RETURN(host.place.addresses, addresses_of_this_host());
  if (!preferred.empty()) {
    MUSTER_ASSIGN_OR_RETURN(const base::IpAddress first, base::IpAddress::parse(preferred));
    std::erase(host.place.addresses, first);
    host.place.addresses.insert(host.place.addresses.begin(), first);
  }
  if (host.place.addresses.size() > kMostMeetingAddresses) {
    host.place.addresses.erase(host.place.addresses.begin() + kMostMeetingAddresses, host.place.addresses.end());
  }
  MUSTER_RETURN_IF_ERROR(meeting.publish(encode_place(host.place)));
  return host;
}

base::Result<AloneGuest> join_meeting(const Meeting& meeting, const Reach& reach, milliseconds deadline) {
  const base::MonotonicTime end = end_of(deadline);
  base::Status last = base::unavailable("rank 0 has not published its address");
  for (;;) {
    if (meeting.check) MUSTER_RETURN_IF_ERROR(meeting.check());
    MUSTER_ASSIGN_OR_RETURN(const std::string text, meeting.find());
    const auto left = std::chrono::ceil<milliseconds>(end - base::monotonic_now());
    if (!text.empty()) {
      auto guest = join_text(text, reach, std::max(left, milliseconds(1)));
      if (guest.ok()) return guest;
      last = guest.status();
    }
    if (left <= milliseconds(0)) {
      return base::deadline_exceeded("rank {} did not reach rank 0 within {} s: {}", meeting.rank,
                                     std::chrono::duration_cast<std::chrono::seconds>(deadline).count(),
                                     last.message());
    }
    // No event reports a new text.
    ::poll(nullptr, 0, static_cast<int>(std::min(kNextLook, left).count()));
  }
}

}  // namespace muster::collectives::join
