#include "agent/job/rank_groups.h"

#include <cstdint>
#include <utility>

namespace muster::agent::inline job {
namespace {

// True if RanksExited says the same. A field that only other ends have makes the message different from a plain one.
bool is_plain_exit(const v1::AgentMessage& message) {
  if (!message.has_rank_exited()) return false;
  const v1::RankExited& exited = message.rank_exited();
  v1::RankExited plain;
  plain.set_rank(exited.rank());
  plain.set_pid(exited.pid());
  plain.set_pid_inside(exited.pid_inside());
  plain.set_agent_ns(exited.agent_ns());
  return plain.ByteSizeLong() == exited.ByteSizeLong();
}

template <typename Single, typename Group>
void add_to_rank_group(const Single& single, Group& group) {
  group.add_ranks(single.rank());
  group.add_pids(single.pid());
  group.add_pids_inside(single.pid_inside());
  group.set_agent_ns(single.agent_ns());
}

template <typename Group>
void drop_same_pids(Group& group) {
  for (int i = 0; i < group.ranks_size(); ++i) {
    if (group.pids(i) != group.pids_inside(i)) return;
  }
  group.clear_pids_inside();
}

// `messages` are all RankStarted or all RankExited.
v1::AgentMessage group_of(const std::vector<v1::AgentMessage>& messages) {
  v1::AgentMessage group;
  for (const v1::AgentMessage& message : messages) {
    if (message.has_rank_started()) {
      add_to_rank_group(message.rank_started(), *group.mutable_ranks_started());
    } else {
      add_to_rank_group(message.rank_exited(), *group.mutable_ranks_exited());
    }
  }
  group.has_ranks_started() ? drop_same_pids(*group.mutable_ranks_started())
                            : drop_same_pids(*group.mutable_ranks_exited());
  return group;
}

}  // namespace

void RankGroups::send(v1::AgentMessage message) {
  if (message.has_rank_started()) return hold(std::move(message), started_);
  if (is_plain_exit(message)) return hold(std::move(message), exited_);
  flush();
  send_(std::move(message));
}

void RankGroups::hold(v1::AgentMessage message, std::vector<v1::AgentMessage>& held) {
  held.push_back(std::move(message));
  if (!timer_.armed()) timer_ = loop_.after(kGatherTime, [this] { flush(); });
}

void RankGroups::flush() {
  timer_.cancel();
  for (std::vector<v1::AgentMessage>* const held : {&started_, &exited_}) {
    std::vector<v1::AgentMessage> messages = std::exchange(*held, {});
    if (messages.empty()) continue;
    send_(messages.size() == 1 ? std::move(messages.front()) : group_of(messages));
  }
}

}  // namespace muster::agent::job
