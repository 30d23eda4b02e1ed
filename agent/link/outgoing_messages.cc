#include "agent/link/outgoing_messages.h"

#include <utility>

#include <fmt/format.h>

namespace muster::agent::inline link {

const v1::AgentMessage* OutgoingMessages::push(v1::AgentMessage message) {
  if (message.has_notice() && is_full()) {
    ++dropped_[message.job_id()];
    return nullptr;
  }
  const v1::AgentMessage& numbered = queue_.push(std::move(message));
  sizes_.push_back(numbered.ByteSizeLong());
  bytes_ += sizes_.back();
  return &numbered;
}

std::vector<v1::AgentMessage> OutgoingMessages::take_drop_notices() {
  std::vector<v1::AgentMessage> notices;
  if (is_full()) return notices;
  for (const auto& [job, lines] : std::exchange(dropped_, {})) {
    v1::AgentMessage message;
    message.set_job_id(job);
    message.mutable_notice()->set_text(
        fmt::format("lines that the agent dropped because the launcher did not read them: {}", lines));
    notices.push_back(std::move(message));
  }
  return notices;
}

void OutgoingMessages::acknowledged(std::uint64_t sequence) {
  queue_.acknowledged(sequence);
  for (; sizes_.size() > queue_.pending().size(); sizes_.pop_front()) bytes_ -= sizes_.front();
}

}  // namespace muster::agent::link
