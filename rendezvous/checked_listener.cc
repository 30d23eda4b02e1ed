#include "rendezvous/checked_listener.h"

#include <sys/socket.h>

#include <cerrno>
#include <map>
#include <utility>

namespace muster::rendezvous {
namespace {

using namespace std::chrono_literals;

constexpr int kAcceptsPerTurn = 64;  // then others on the loop get theirs
constexpr base::Duration kPause = 100ms;

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
        limits(limits_) {}

  void arm() {
    readable = loop.on_readable(listening.get(), [this] { accept_some(); });
  }

  void accept_some() {
    for (int i = 0; i < kAcceptsPerTurn; ++i) {
      base::UniqueFd fd(::accept4(listening.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (fd.valid()) {
        begin_check(std::move(fd));
      } else if (errno == EAGAIN) {
        return;
      } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        return pause();
      }  // else that connection failed before it was taken: the next one
    }
  }

  // The socket stays readable as long as nobody can be accepted: waiting for it would spin.
  void pause() {
    ++counts.pauses;
    readable.cancel();
    resume = loop.after(kPause, [this] { arm(); });
  }

  void begin_check(base::UniqueFd fd) {
    const auto ends = connection_ends(fd.get());
    if (!ends.ok()) return;  // gone already
    if (unchecked.size() >= limits.max_unchecked) {
      unchecked.erase(unchecked.begin());
      ++counts.dropped;
    }
    const std::uint64_t id = next_id++;
    unchecked.emplace(id, Unchecked{std::move(fd), std::chrono::steady_clock::now()});
    if (!expiry.armed()) arm_expiry();
    check(*ends, [weak = weak_from_this(), id](bool allowed) {
      if (const auto self = weak.lock()) self->end_check(id, allowed);
    });
  }

  void end_check(std::uint64_t id, bool allowed) {
    const auto found = unchecked.find(id);
    if (found == unchecked.end()) return;  // dropped meanwhile
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
      unchecked.erase(unchecked.begin());
      ++counts.dropped;
    }
    expiry.cancel();
    if (!unchecked.empty()) arm_expiry();
  }

  base::Loop& loop;
  const base::UniqueFd listening;
  const OwnerCheck check;
  const OnAccepted on_accepted;
  const CheckedListenerLimits limits;
  std::map<std::uint64_t, Unchecked> unchecked;  // by age
  std::uint64_t next_id = 0;
  base::Timer expiry;
  base::Timer resume;
  base::Timer readable;
  Counts counts;
};

CheckedListener::CheckedListener(base::Loop& loop, base::UniqueFd listening, OwnerCheck check, OnAccepted on_accepted,
                                 CheckedListenerLimits limits)
    : state_(std::make_shared<State>(loop, std::move(listening), std::move(check), std::move(on_accepted), limits)) {
  // Raises the backlog of a socket that listens already; a socket that cannot listen is a bug of the caller.
  MUSTER_CHECK(::listen(state_->listening.get(), limits.backlog) == 0);
  state_->arm();
}

CheckedListener::~CheckedListener() = default;

const CheckedListener::Counts& CheckedListener::counts() const {
  return state_->counts;
}

}  // namespace muster::rendezvous
