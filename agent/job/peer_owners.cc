#include "agent/job/peer_owners.h"

#include <unistd.h>

#include <utility>

#include "rendezvous/local_owner.h"

namespace muster::agent::inline job {
namespace {

bool is_own(const base::Result<uid_t>& owner) {
  return owner.ok() && *owner == ::getuid();
}

}  // namespace

PeerOwners::PeerOwners(std::set<base::IpAddress> own, std::function<void(v1::OwnerQuestion)> ask,
                       PeerOwnersLimits limits)
    : own_(std::move(own)), ask_(std::move(ask)), limits_(limits) {}

rendezvous::OwnerCheck PeerOwners::check() {
  return [this](const rendezvous::ConnectionEnds& ends, std::function<void(bool allowed)> done) {
    check(ends, std::move(done));
  };
}

void PeerOwners::check(const rendezvous::ConnectionEnds& ends, std::function<void(bool allowed)> done) {
  const base::Result<uid_t> owner = rendezvous::local_owner(ends);
  const bool is_here = ends.peer.is_loopback() || own_.contains(ends.peer);
  if (owner.ok() || is_here) return done(is_own(owner));
  if (others_ != nullptr && others_->is_stranger(ends.peer)) return done(false);
  make_room(ends.peer.str());
  v1::OwnerQuestion question;
  question.set_id(next_id_++);
  question.set_peer(ends.peer.str());
  question.set_peer_port(ends.peer_port);
  question.set_local(ends.local.str());
  question.set_local_port(ends.local_port);
  by_peer_[question.peer()].insert(question.id());
  waiting_.emplace(question.id(), Waiting{question, std::chrono::steady_clock::now(), std::move(done)});
  if (others_ != nullptr) others_->ask(ends, [this, id = question.id()] { end(id, true); });
  ask_(std::move(question));
}

void PeerOwners::answered(const v1::OwnerAnswer& answer) {
  end(answer.id(), answer.allowed());
}

void PeerOwners::end(std::uint64_t id, bool allowed) {
  const auto found = waiting_.extract(id);
  if (found.empty()) return;
  const auto of_peer = by_peer_.find(found.mapped().question.peer());
  of_peer->second.erase(id);
  if (of_peer->second.empty()) by_peer_.erase(of_peer);
  found.mapped().done(allowed);
}

// Drops the oldest questions: first those of the same peer, then those whose connection is closed by now, then any.
void PeerOwners::make_room(const std::string& peer) {
  const auto of_peer = by_peer_.find(peer);
  if (of_peer != by_peer_.end() && of_peer->second.size() >= limits_.max_of_peer) end(*of_peer->second.begin(), false);
  const auto closed_by_now = std::chrono::steady_clock::now() - limits_.time_limit;
  while (!waiting_.empty() && waiting_.begin()->second.since < closed_by_now) end(waiting_.begin()->first, false);
  if (waiting_.size() >= limits_.max_questions) end(waiting_.begin()->first, false);
}

void PeerOwners::ask_again() {
  const auto closed_by_now = std::chrono::steady_clock::now() - limits_.time_limit;
  while (!waiting_.empty() && waiting_.begin()->second.since < closed_by_now) end(waiting_.begin()->first, false);
  for (const auto& [id, waiting] : waiting_) ask_(waiting.question);
}

bool PeerOwners::is_ours(const rendezvous::ConnectionEnds& ends) {
  return is_own(rendezvous::local_owner(ends));
}

v1::OwnerAnswer PeerOwners::answer(const v1::OwnerQuestion& question) {
  v1::OwnerAnswer answer;
  answer.set_id(question.id());
  const auto peer = base::IpAddress::parse(question.peer());
  const auto local = base::IpAddress::parse(question.local());
  constexpr std::uint32_t kMaxPort = 65535;
  if (!peer.ok() || !local.ok() || question.peer_port() > kMaxPort || question.local_port() > kMaxPort) return answer;
  answer.set_allowed(is_ours({.peer = *peer,
                              .peer_port = static_cast<std::uint16_t>(question.peer_port()),
                              .local = *local,
                              .local_port = static_cast<std::uint16_t>(question.local_port())}));
  return answer;
}

}  // namespace muster::agent::job
