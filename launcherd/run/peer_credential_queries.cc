#include "launcherd/run/peer_credential_queries.h"

#include <utility>

namespace muster::launcherd::inline run {
namespace {

// If more questions than this are open, the oldest is dropped.
constexpr std::size_t kMaxOpen = 1 << 16;

}  // namespace

void PeerCredentialQueries::ask(int asker, const v1::OwnerQuestion& question, const std::vector<int>& candidates) {
  const Open open{.asker = asker, .id = question.id(), .asked = candidates};
  if (candidates.empty()) return reply(open, false);
  if (open_.size() >= kMaxOpen) open_.erase(open_.begin());
  v1::LauncherMessage message;
  *message.mutable_owner_question() = question;
  message.mutable_owner_question()->set_id(next_id_);
  open_.emplace(next_id_++, open);
  for (const int agent : candidates) send_(agent, message);
}

void PeerCredentialQueries::answered(int agent, const v1::OwnerAnswer& answer) {
  const auto found = open_.find(answer.id());
  if (found == open_.end() || std::erase(found->second.asked, agent) == 0) return;
  if (!answer.allowed() && !found->second.asked.empty()) return;
  const Open open = found->second;
  open_.erase(found);
  reply(open, answer.allowed());
}

void PeerCredentialQueries::reply(const Open& open, bool allowed) {
  v1::LauncherMessage message;
  message.mutable_owner_answer()->set_id(open.id);
  message.mutable_owner_answer()->set_allowed(allowed);
  send_(open.asker, std::move(message));
}

}  // namespace muster::launcherd::run
