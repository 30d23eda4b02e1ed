#include "agent/service/peer_owners.h"

#include <unistd.h>

#include <utility>

#include "rendezvous/local_owner.h"

namespace muster::agent {
namespace {

// A launcher that is gone answers nothing: the listeners give their connections up by themselves, and the oldest
// question goes when there are too many.
constexpr std::size_t kMaxQueries = 4096;

bool is_own(const base::Result<uid_t>& owner) {
  return owner.ok() && *owner == ::getuid();
}

}  // namespace

PeerOwners::PeerOwners(std::set<base::IpAddress> own, std::function<void(v1::OwnerQuestion)> ask)
    : own_(std::move(own)), ask_(std::move(ask)) {}

rendezvous::OwnerCheck PeerOwners::check() {
  return [this](const rendezvous::ConnectionEnds& ends, std::function<void(bool allowed)> done) {
    check(ends, std::move(done));
  };
}

void PeerOwners::check(const rendezvous::ConnectionEnds& ends, std::function<void(bool allowed)> done) {
  const base::Result<uid_t> owner = rendezvous::local_owner(ends);
  const bool is_here = ends.peer.is_loopback() || own_.contains(ends.peer);
  if (owner.ok() || is_here) return done(is_own(owner));
  if (waiting_.size() >= kMaxQueries) {
    const auto oldest = waiting_.extract(waiting_.begin());
    oldest.mapped()(false);
  }
  v1::OwnerQuestion question;
  question.set_id(next_id_++);
  question.set_peer(ends.peer.str());
  question.set_peer_port(ends.peer_port);
  question.set_local(ends.local.str());
  question.set_local_port(ends.local_port);
  waiting_.emplace(question.id(), std::move(done));
  ask_(std::move(question));
}

void PeerOwners::answered(const v1::OwnerAnswer& answer) {
  const auto found = waiting_.extract(answer.id());
  if (!found.empty()) found.mapped()(answer.allowed());
}

v1::OwnerAnswer PeerOwners::answer(const v1::OwnerQuestion& question) {
  v1::OwnerAnswer answer;
  answer.set_id(question.id());
  const auto peer = base::IpAddress::parse(question.peer());
  const auto local = base::IpAddress::parse(question.local());
  constexpr std::uint32_t kMaxPort = 65535;
  if (!peer.ok() || !local.ok() || question.peer_port() > kMaxPort || question.local_port() > kMaxPort) return answer;
  answer.set_allowed(
      is_own(rendezvous::local_owner({.peer = *peer,
                                      .peer_port = static_cast<std::uint16_t>(question.peer_port()),
                                      .local = *local,
                                      .local_port = static_cast<std::uint16_t>(question.local_port())})));
  return answer;
}

}  // namespace muster::agent
