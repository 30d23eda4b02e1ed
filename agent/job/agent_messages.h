// Converts events of this host into messages of agent.proto. Pure; no I/O.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "agent/process/warden_events.h"
#include "base/clock.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::agent::inline job {

// Returns a message with this body, such as message_with(&v1::AgentMessage::mutable_stack_answer, answer).
template <typename Body>
v1::AgentMessage message_with(Body* (v1::AgentMessage::*field)(), Body body) {
  v1::AgentMessage message;
  *(message.*field)() = std::move(body);
  return message;
}

v1::AgentMessage message_of(const RankStarted& started);
v1::AgentMessage message_of(const RankStartFailed& failed, base::MonotonicTime now);
v1::AgentMessage message_of(const RankExited& exited);
v1::AgentMessage notice_message(const std::string& text);
v1::AgentMessage stderr_tail_message(int rank, const std::string& text);
v1::AgentMessage error_file_message(int rank, const std::string& content);

// `failure` says why the host failed the job. Empty means that the host did not fail it.
v1::HostEmpty host_empty_of(const JobEmpty& empty, const std::string& failure);

v1::AgentMessage pong_of(const v1::Ping& ping, base::MonotonicTime now);

// True if the agent must repeat this message to a launcher that has restarted.
bool is_history(const v1::AgentMessage& message);
// Adds a message to the history of its job. A RankWorld replaces the one that says the same of the rank, so that ranks
// which form groups again and again do not make the history longer.
void add_to_history(v1::AgentMessage message, std::vector<v1::AgentMessage>& history);

}  // namespace muster::agent::job
