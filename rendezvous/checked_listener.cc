#include "rendezvous/checked_listener.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <utility>

#include "base/descriptor_limit.h"

namespace muster::rendezvous {
namespace {

using namespace std::chrono_literals;

constexpr int kAcceptsPerTurn = 64;  // after that many, other users of the loop get their turn
constexpr base::Duration kPause = 100ms;
constexpr base::Duration kBetweenReports = 60s;

CheckedListenerLimits within_descriptors(CheckedListenerLimits limits) {
  limits.max_unchecked = std::clamp<std::size_t>(base::descriptor_limit() / 4, 1, limits.max_unchecked);
  return limits;
}

}  // namespace

struct CheckedListener::State : std::enable_shared_from_this<State> {
  struct Unchecked {
    base::UniqueFd fd;
    base::MonotonicTime since;
  };

  State(base::Loop& loop_, base::UniqueFd listening_, OwnerCheck check_, OnAccepted on_accepted_,
        CheckedListenerLimits limits_)
      : loop(loop_),
        listening(std::move(listening_)),
        check(std::move(check_)),
        on_accepted(std::move(on_accepted_)),
        limits(within_descriptors(std::move(limits_))) {}

  void arm() {
    readable = loop.on_readable(listening.get(), [this] { accept_some(); });
  }

  void accept_some() {
    const std::size_t spare = base::spare_descriptors();
    if (unchecked.empty() && !base::has_spare_descriptors(listening.get(), spare)) return pause();
    for (int i = 0; i < kAcceptsPerTurn; ++i) {
      base::UniqueFd fd(::accept4(listening.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (fd.valid()) {
        // accept4() returns the lowest free descriptor number, so a high number means that few are left.
        const bool is_last = static_cast<std::size_t>(fd.get()) + spare >= base::descriptor_limit();
        const bool makes_room = is_last && !unchecked.empty();
        if (makes_room) drop_oldest();
        begin_check(std::move(fd));
        if (is_last && !makes_room) return pause();
      } else if (errno == EAGAIN) {
        return;
      } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        return pause();
      }  // otherwise this connection broke before accept4(); try the next one
    }
  }

  void drop_oldest() {
    unchecked.erase(unchecked.begin());
    ++counts.dropped;
  }

  // Stop polling: the listening socket stays readable while connections wait, so polling it would spin.
  void pause() {
    ++counts.pauses;
    readable.cancel();
    resume = loop.after(kPause, [this] { arm(); });
    const auto now = std::chrono::steady_clock::now();
    if (!limits.on_starved || now < next_report) return;
    next_report = now + kBetweenReports;
    limits.on_starved();
  }

  void begin_check(base::UniqueFd fd) {
    const auto ends = connection_ends(fd.get());
    if (!ends.ok()) return;  // the peer has gone
    if (unchecked.size() >= limits.max_unchecked) drop_oldest();
    const std::uint64_t id = next_id++;
    unchecked.emplace(id, Unchecked{std::move(fd), std::chrono::steady_clock::now()});
    if (!expiry.armed()) arm_expiry();
    check(*ends, [weak = weak_from_this(), id](bool allowed) {
      if (const auto self = weak.lock()) self->end_check(id, allowed);
    });
  }

  void end_check(std::uint64_t id, bool allowed) {
    const auto found = unchecked.find(id);
    if (found == unchecked.end()) return;  // it was dropped before its check ended
    base::UniqueFd fd = std::move(found->second.fd);
    unchecked.erase(found);
    ++(allowed ? counts.allowed : counts.refused);
    if (allowed) on_accepted(std::move(fd));
  }

  void arm_expiry() {
    const auto left = unchecked.begin()->second.since + limits.check_limit - std::chrono::steady_clock::now();
    expiry = loop.after(left, [this] { expire(); });
  }

  void expire() {
    const auto oldest = std::chrono::steady_clock::now() - limits.check_limit;
    while (!unchecked.empty() && unchecked.begin()->second.since <= oldest) {
      drop_oldest();
    }
    expiry.cancel();
    if (!unchecked.empty()) arm_expiry();
  }

  base::Loop& loop;
  const base::UniqueFd listening;
  const OwnerCheck check;
  const OnAccepted on_accepted;
  const CheckedListenerLimits limits;
  std::map<std::uint64_t, Unchecked> unchecked;  // oldest first
  std::uint64_t next_id = 0;
  base::MonotonicTime next_report{};
  base::Timer expiry;
  base::Timer resume;
  base::Timer readable;
  Counts counts;
};

CheckedListener::CheckedListener(base::Loop& loop, base::UniqueFd listening, OwnerCheck check, OnAccepted on_accepted,
                                 CheckedListenerLimits limits)
    : state_(std::make_shared<State>(loop, std::move(listening), std::move(check), std::move(on_accepted),
                                     std::move(limits))) {
  // Raises the backlog of a socket that listens already. If the socket cannot listen, the caller has a bug.
  MUSTER_CHECK(::listen(state_->listening.get(), state_->limits.backlog) == 0);
  state_->arm();
}

CheckedListener::~CheckedListener() = default;

const CheckedListener::Counts& CheckedListener::counts() const {
  return state_->counts;
}

}  // namespace muster::rendezvous
